package redisstore

import (
	"strconv"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// reply reads what a script answered: its code, the store's time, and values in
// the order that the script gives them.
type reply struct {
	Code   store.Code
	Now    int64
	values []any
	next   int
}

func newReply(v []any) (*reply, bool) {
	if len(v) < 2 {
		return nil, false
	}
	r := &reply{values: v}
	r.Code, r.Now = store.Code(r.str()), r.int()
	return r, r.Code != "" && r.Now > 0
}

func (r *reply) value() any {
	if r.next >= len(r.values) {
		return nil
	}
	r.next++
	return r.values[r.next-1]
}

func (r *reply) str() string   { return text(r.value()) }
func (r *reply) int() int64    { return number(r.value()) }
func (r *reply) bool() bool    { return r.int() != 0 }
func (r *reply) bytes() []byte { return data(r.value()) }

func (r *reply) list() []any {
	l, _ := r.value().([]any)
	return l
}

func (r *reply) position() store.Position {
	o := r.int()
	return store.Position{Offset: o, Stamp: r.str()}
}

func (r *reply) ints() []int64 {
	l := r.list()
	if len(l) == 0 {
		return nil
	}
	ids := make([]int64, len(l))
	for i := range l {
		ids[i] = number(l[i])
	}
	return ids
}

// part reads a value that is a list of values.
func (r *reply) part() *reply { return &reply{values: r.list()} }

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return 0
}

// data returns bytes, nil if there are none.
func data(v any) []byte {
	s := text(v)
	if s == "" {
		return nil
	}
	return []byte(s)
}

// fields reads a list of names and values.
func fields(l []any) map[string]string {
	m := make(map[string]string, len(l)/2)
	for i := 0; i+1 < len(l); i += 2 {
		m[text(l[i])] = text(l[i+1])
	}
	return m
}
