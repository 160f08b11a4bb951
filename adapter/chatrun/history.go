package chatrun

import "strings"

// HistoryMessage is one message of conversation_history (section 9.5, GW-39).
type HistoryMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// argumentsLength bounds call arguments repeated to the model.
const argumentsLength = 4000

// History converts rows, oldest first, for a model: commands and empty messages
// are left out, tool traffic becomes text (section 9.5, CR-91).
func History(rows []RowData) []HistoryMessage {
	var out []HistoryMessage
	for _, row := range rows {
		if m, ok := historyMessage(row); ok {
			out = append(out, m)
		}
	}
	return out
}

func historyMessage(row RowData) (m HistoryMessage, ok bool) {
	switch row.Role {
	case "user":
		m = HistoryMessage{"user", StoredInput(row.Content).PlainText()}
	case "tool":
		m = HistoryMessage{"user", "[Tool result: " + row.Content + "]"}
	case "assistant":
		m = HistoryMessage{"assistant", row.Content}
		if strings.TrimSpace(row.Content) == "" {
			m.Content = callsAsText(row.ToolCalls)
		}
	}
	return m, strings.TrimSpace(m.Content) != ""
}

func callsAsText(calls []ToolCall) string {
	lines := make([]string, 0, len(calls))
	for _, c := range calls {
		args := c.Function.Arguments
		if cut := Cut(args, argumentsLength); len(cut) < len(args) {
			args = cut + "..."
		}
		lines = append(lines, "[Calling tool: "+c.Function.Name+" with arguments: "+args+"]")
	}
	return strings.Join(lines, "\n")
}
