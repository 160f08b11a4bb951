package responses

import (
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
)

type inputItem struct {
	Role    string      `json:"role"`
	Content []inputPart `json:"content"`
}

type inputPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// wireInput converts a user message for the upstream (chat-run 9.5): a text stays
// a text, blocks become parts. No file is opened here: images and files are named
// to the model, whose tools may be able to read them.
func wireInput(in chatrun.Input) any {
	if in.Blocks == nil {
		return in.Text
	}
	parts := make([]inputPart, 0, len(in.Blocks))
	for _, b := range in.Blocks {
		if text := blockText(b); text != "" {
			parts = append(parts, inputPart{Type: "input_text", Text: text})
		}
	}
	return []inputItem{{Role: "user", Content: parts}}
}

func blockText(b chatrun.ContentBlock) string {
	switch b.Type {
	case "image":
		return "[Image: " + firstOf(b.Path, b.Name) + "]"
	case "file":
		return "[File: " + firstOf(b.Name, b.Path) + "]"
	default:
		return b.Text
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func wireHistory(history []chatrun.HistoryMessage) []gateway.Message {
	out := make([]gateway.Message, len(history))
	for i, m := range history {
		out[i] = gateway.Message(m)
	}
	return out
}
