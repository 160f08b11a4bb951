package embedded

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// A record is a JSON head followed by raw payloads, each preceded by its length,
// so that payloads are stored as they are:
//
//	uvarint length, head, (uvarint length, payload)*
var errRecord = errors.New("damaged record in the store file")

func encode(head any, payloads ...[]byte) ([]byte, error) {
	h, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	size := len(h) + binary.MaxVarintLen64*(1+len(payloads))
	for _, p := range payloads {
		size += len(p)
	}
	b := make([]byte, 0, size)
	b = append(binary.AppendUvarint(b, uint64(len(h))), h...)
	for _, p := range payloads {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b, nil
}

// decode reads a record that holds exactly the given payloads. The payloads are
// copies, since b belongs to a transaction.
func decode(b []byte, head any, payloads ...*[]byte) error {
	h, rest, err := part(b)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(h, head); err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	for _, p := range payloads {
		var data []byte
		if data, rest, err = part(rest); err != nil {
			return err
		}
		*p = nil
		if len(data) > 0 {
			*p = append([]byte(nil), data...)
		}
	}
	if len(rest) > 0 {
		return errRecord
	}
	return nil
}

func part(b []byte) (data, rest []byte, err error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, errRecord
	}
	end := used + int(n)
	return b[used:end], b[end:], nil
}

func decodeRoot(b []byte) (*memory.Root, error) {
	var r memory.Root
	if err := decode(b, &r); err != nil {
		return nil, err
	}
	if r.Version > memory.LayoutVersion {
		return nil, store.ErrTooNew
	}
	return &r, nil
}

func decodeLedger(b []byte) (*memory.LedgerRecord, error) {
	var r memory.LedgerRecord
	if err := decode(b, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// itemHead and rowHead are the heads of records whose content is a payload.
type itemHead struct {
	QID      string     `json:"qid"`
	Run      string     `json:"run"`
	Digest   string     `json:"dig,omitempty"`
	Executor string     `json:"ex,omitempty"`
	CID      string     `json:"cid,omitempty"`
	Profile  string     `json:"pro,omitempty"`
	Role     store.Role `json:"role"`
	Accepted int64      `json:"at"`
}

func encodeItem(it *store.Item) ([]byte, error) {
	h := itemHead{it.QID, it.Run, it.Digest, it.Executor, it.CID, it.Profile, it.Row.Role, it.Accepted}
	return encode(h, it.Row.Data, it.Options)
}

func decodeItem(b []byte) (*store.Item, error) {
	var h itemHead
	it := &store.Item{}
	if err := decode(b, &h, &it.Row.Data, &it.Options); err != nil {
		return nil, err
	}
	it.QID, it.Run, it.Digest, it.Executor = h.QID, h.Run, h.Digest, h.Executor
	it.CID, it.Profile, it.Row.Role, it.Accepted = h.CID, h.Profile, h.Role, h.Accepted
	return it, nil
}

type rowHead struct {
	Role store.Role `json:"role"`
	Time int64      `json:"at"`
	Run  string     `json:"run,omitempty"`
	QID  string     `json:"qid,omitempty"`
}

func encodeRow(r *store.Row) ([]byte, error) {
	return encode(rowHead{r.Role, r.Time, r.Run, r.QID}, r.Data)
}

func decodeRow(id int64, b []byte) (store.Row, error) {
	var h rowHead
	r := store.Row{ID: id}
	if err := decode(b, &h, &r.Data); err != nil {
		return store.Row{}, err
	}
	r.Role, r.Time, r.Run, r.QID = h.Role, h.Time, h.Run, h.QID
	return r, nil
}

// entryHead is the head of a log entry. Offsets and stamps are not kept: they
// belong to the process that gave them.
type entryHead struct {
	Kind        store.Kind `json:"k"`
	Name        string     `json:"n,omitempty"`
	Time        int64      `json:"at"`
	Run         string     `json:"run,omitempty"`
	Except      string     `json:"c,omitempty"`
	QueueLength int        `json:"ql,omitempty"`
	QueueIDs    []string   `json:"ids,omitempty"`
	Dequeued    string     `json:"dq,omitempty"`
	QID         string     `json:"qid,omitempty"`
	Row         int64      `json:"row,omitempty"`
}

func encodeLog(entries []store.Entry) ([]byte, error) {
	heads := make([]entryHead, len(entries))
	payloads := make([][]byte, len(entries))
	for i := range entries {
		e := &entries[i]
		heads[i] = entryHead{e.Kind, e.Name, e.Time, e.Run, e.Except, e.QueueLength, e.QueueIDs, e.Dequeued, e.QID, e.Row}
		payloads[i] = e.Payload
	}
	return encode(heads, payloads...)
}

func decodeLog(b []byte) ([]store.Entry, error) {
	h, _, err := part(b)
	if err != nil {
		return nil, err
	}
	var heads []entryHead
	if err := json.Unmarshal(h, &heads); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	entries := make([]store.Entry, len(heads))
	payloads := make([]*[]byte, len(heads))
	for i, h := range heads {
		e := &entries[i]
		e.Kind, e.Name, e.Time, e.Run, e.Except = h.Kind, h.Name, h.Time, h.Run, h.Except
		e.QueueLength, e.QueueIDs, e.Dequeued, e.QID, e.Row = h.QueueLength, h.QueueIDs, h.Dequeued, h.QID, h.Row
		payloads[i] = &e.Payload
	}
	return entries, decode(b, &heads, payloads...)
}
