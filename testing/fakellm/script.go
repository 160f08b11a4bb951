package fakellm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Reply is what the model does in one call.
type Reply struct {
	// Status is an HTTP error to answer with; zero means a stream.
	Status int
	// Reasoning is streamed before the text.
	Reasoning string
	// Chunks are the pieces of the text, in order.
	Chunks []string
	// Slow puts the server's pace between two chunks.
	Slow bool
	// Calls are the tool calls after the text.
	Calls []Call
	// Drop cuts the connection after the chunks, without an end.
	Drop bool
}

// Call is one tool call; Arguments is JSON text.
type Call struct {
	ID, Name, Arguments string
}

const (
	defaultSlowChunks = 60
	maxChunks         = 10_000
	maxQuoted         = 400
)

var keyword = regexp.MustCompile(`\[\[(\w+)(?: ([^\]]*))?\]\]`)

// Script decides the answer from the last message (spec gateway 8.4). A tool result is answered with
// text that quotes it. In a user message the last line decides: when a turn failed without an answer, the
// agent joins its message with the next one, and the old keyword must not act again. Without a keyword
// the text is echoed.
//
//	[[tool]]            terminal call "echo hi", text before and after it
//	[[tool <command>]]  the same with that command, for instance "sleep 60" or "rm -rf /path"
//	[[fail]]            terminal call "exit 3"
//	[[parallel <a> <b>]] one read_file call per path, in one reply
//	[[unknown]]         call of a tool that does not exist
//	[[reasoning]]       reasoning before the text
//	[[slow <n>]]        n chunks (60), one per pace
//	[[words <n>]]       n words (100) at once
//	[[remember]]        quotes the earlier user messages
//	[[error <status>]]  HTTP error (500)
//	[[drop]]            cuts the connection in the middle of the text
//
// Earlier user messages are never searched for a keyword: the agent merges and adds user messages.
func Script(messages []Message) Reply {
	last := messages[len(messages)-1]
	if last.Role == "tool" {
		return text("The tool said: " + quote(last.Text))
	}
	found := keyword.FindStringSubmatch(lastLine(last.Text))
	if found == nil {
		return text("You said: " + quote(last.Text))
	}
	argument := strings.TrimSpace(found[2])
	switch found[1] {
	case "tool":
		return tools("Let me look. ", terminal(1, argument, "echo hi"))
	case "fail":
		return tools("", terminal(1, argument, "exit 3"))
	case "parallel":
		return tools("", reads(argument)...)
	case "unknown":
		return tools("", Call{ID: "call_1", Name: "no_such_tool", Arguments: "{}"})
	case "reasoning":
		return Reply{Reasoning: "First I think about it.", Chunks: []string{"Then ", "I answer."}}
	case "slow":
		return Reply{Chunks: words(count(argument, defaultSlowChunks)), Slow: true}
	case "words":
		return Reply{Chunks: words(count(argument, 100))}
	case "remember":
		return text(remember(messages[:len(messages)-1]))
	case "error":
		return Reply{Status: status(argument)}
	case "drop":
		return Reply{Chunks: []string{"This answer ", "is cut "}, Drop: true}
	}
	return text("Unknown keyword: " + found[1])
}

func lastLine(value string) string {
	trimmed := strings.TrimSpace(value)
	return trimmed[strings.LastIndex(trimmed, "\n")+1:]
}

func text(value string) Reply {
	return Reply{Chunks: strings.SplitAfter(value, " ")}
}

func tools(before string, calls ...Call) Reply {
	reply := Reply{Calls: calls}
	if before != "" {
		reply.Chunks = strings.SplitAfter(before, " ")
	}
	return reply
}

func terminal(n int, command, fallback string) Call {
	if command == "" {
		command = fallback
	}
	return call(n, "terminal", map[string]string{"command": command})
}

func reads(paths string) []Call {
	var calls []Call
	for _, path := range strings.Fields(paths) {
		calls = append(calls, call(len(calls)+1, "read_file", map[string]string{"path": path}))
	}
	return calls
}

func call(n int, name string, arguments map[string]string) Call {
	// A map of strings always has a JSON form.
	encoded, _ := json.Marshal(arguments)
	return Call{ID: fmt.Sprintf("call_%d", n), Name: name, Arguments: string(encoded)}
}

func words(n int) []string {
	chunks := make([]string, n)
	for i := range chunks {
		chunks[i] = fmt.Sprintf("word%d ", i+1)
	}
	return chunks
}

func remember(earlier []Message) string {
	var texts []string
	for _, message := range earlier {
		if message.Role == "user" {
			texts = append(texts, quote(message.Text))
		}
	}
	if len(texts) == 0 {
		return "I remember nothing."
	}
	return "I remember: " + strings.Join(texts, " | ")
}

func quote(value string) string {
	if runes := []rune(value); len(runes) > maxQuoted {
		return string(runes[:maxQuoted])
	}
	return value
}

func count(argument string, fallback int) int {
	n, err := strconv.Atoi(argument)
	if err != nil || n < 1 {
		return fallback
	}
	return min(n, maxChunks)
}

func status(argument string) int {
	n, err := strconv.Atoi(argument)
	if err != nil || n < 400 || n > 599 {
		return 500
	}
	return n
}
