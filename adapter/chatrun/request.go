package chatrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// RunRequest is the payload of the client event run (section 2.1). Fields of
// newer front-ends that this server does not use are ignored (CR-96).
type RunRequest struct {
	SessionID    string
	QueueID      string
	Profile      string
	Model        string
	Provider     string
	Instructions string
	Source       string
	Input        Input
}

// Limits of client-made texts; the queue id becomes part of stored records.
const (
	maxQueueID  = 200
	maxWord     = 256
	maxSysText  = 256 << 10
	errNotAnObj = "the payload must be an object"
)

// ParseRun validates a run payload before anything is touched (D-01, D-02). On an
// error the session id is still set if it could be read, for the answer.
func ParseRun(raw json.RawMessage) (RunRequest, error) {
	fields, err := object(raw)
	if err != nil {
		return RunRequest{}, err
	}
	var r RunRequest
	words := []struct {
		name string
		to   *string
		max  int
	}{
		{"session_id", &r.SessionID, 4096}, {"queue_id", &r.QueueID, maxQueueID}, {"profile", &r.Profile, 4096},
		{"model", &r.Model, maxWord}, {"provider", &r.Provider, maxWord},
		{"instructions", &r.Instructions, maxSysText}, {"source", &r.Source, maxWord},
	}
	for _, w := range words {
		if *w.to, err = word(fields, w.name, w.max); err != nil {
			return r, err
		}
	}
	r.Profile = strings.TrimSpace(r.Profile)
	if r.SessionID == "" {
		return r, errors.New(TextSessionRequired)
	}
	if !ValidSessionID(r.SessionID) {
		return r, errors.New("session_id is not valid: use 1 to 128 characters of letters, digits and any of _ - . : only")
	}
	r.Input, err = ParseInput(fields["input"])
	return r, err
}

// SessionRequest is the payload of resume, abort and cancel_queued_run.
type SessionRequest struct {
	SessionID string
	QueueID   string
}

// ParseSession reads a payload that names a session. ok is false for everything
// that must be ignored: no object, no id, an id that cannot exist.
func ParseSession(raw json.RawMessage) (r SessionRequest, ok bool) {
	fields, err := object(raw)
	if err != nil {
		return r, false
	}
	if r.SessionID, err = word(fields, "session_id", maxWord); err != nil || !ValidSessionID(r.SessionID) {
		return r, false
	}
	r.QueueID, err = word(fields, "queue_id", maxQueueID)
	return r, err == nil
}

func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return nil, errors.New(errNotAnObj)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, errors.New(errNotAnObj)
	}
	return fields, nil
}

// word reads an optional text field; null counts as absent.
func word(fields map[string]json.RawMessage, name string, max int) (string, error) {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s must be a text", name)
	}
	if len(s) > max {
		return "", fmt.Errorf("%s is too long (at most %d bytes)", name, max)
	}
	return ValidText(s), nil
}
