package chatrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// ContentBlock is one element of an array input (section 2.1).
type ContentBlock struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Name      string `json:"name,omitempty"`
	Path      string `json:"path,omitempty"`
	MediaType string `json:"media_type,omitempty"`
}

// Input is what a user sent: a text, or content blocks.
type Input struct {
	Text   string
	Blocks []ContentBlock
	stored string // array form as the client wrote it
}

// Errors of ParseInput; their texts are shown to the user.
var (
	ErrInputType  = errors.New("input must be a text or a list of content blocks")
	ErrInputEmpty = errors.New("the message is empty")
)

// ParseInput reads the input field of a run, or the stored form of an array.
func ParseInput(raw json.RawMessage) (Input, error) {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(trimmed) == 0:
		return Input{}, ErrInputType
	case trimmed[0] == '"':
		var text string
		if err := json.Unmarshal(trimmed, &text); err != nil {
			return Input{}, ErrInputType
		}
		if strings.TrimSpace(text) == "" {
			return Input{}, ErrInputEmpty
		}
		return Input{Text: ValidText(text)}, nil
	case trimmed[0] == '[':
		return parseBlocks(trimmed)
	default:
		return Input{}, ErrInputType
	}
}

func parseBlocks(raw []byte) (Input, error) {
	var blocks []ContentBlock
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return Input{}, ErrInputType
	}
	if len(blocks) == 0 {
		return Input{}, ErrInputEmpty
	}
	for _, b := range blocks {
		if b.Type == "" {
			return Input{}, ErrInputType
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Input{}, ErrInputType
	}
	return Input{Blocks: blocks, stored: ValidText(compact.String())}, nil
}

// StoredInput reads the content of a user row back: the JSON text of a block
// array becomes blocks again, everything else is text.
func StoredInput(content string) Input {
	if strings.HasPrefix(content, "[{") {
		if in, err := parseBlocks([]byte(content)); err == nil {
			return in
		}
	}
	return Input{Text: content}
}

// Stored returns the content of the user row: the text, or the JSON text of the
// blocks.
func (in Input) Stored() string {
	if in.Blocks == nil {
		return in.Text
	}
	return in.stored
}

// PlainText returns the text a reader sees: text blocks joined by line breaks,
// else the names of what was attached.
func (in Input) PlainText() string {
	if in.Blocks == nil {
		return in.Text
	}
	var texts, names []string
	for _, b := range in.Blocks {
		switch {
		case b.Type == "text" && b.Text != "":
			texts = append(texts, b.Text)
		case b.Name != "":
			names = append(names, b.Name)
		}
	}
	if len(texts) == 0 {
		return strings.Join(names, ", ")
	}
	return strings.Join(texts, "\n")
}
