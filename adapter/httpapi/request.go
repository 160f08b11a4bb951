package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// Limits of what a client may send.
const (
	maxBody   = 64 << 10 // bytes of a JSON body
	maxCursor = 1024     // bytes of a cursor
	maxSearch = 256      // characters of a search text
	maxTitle  = 256      // characters of a title
	maxModel  = 256      // characters of a model or provider name
)

// cursorVersion begins every cursor, so that one of a later release is told from a
// damaged one.
const cursorVersion = "1:"

// encodeCursor hides the engine's cursor from clients, which would else begin to
// make their own.
func encodeCursor(next string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorVersion + next))
}

func decodeCursor(s string) (string, bool) {
	if len(s) > maxCursor {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return "", false
	}
	cursor, ok := strings.CutPrefix(string(raw), cursorVersion)
	// The decoder skips line breaks; a cursor has one spelling.
	return cursor, ok && cursor != "" && utf8.ValidString(cursor) && encodeCursor(cursor) == s
}

func listQuery(v url.Values) (engine.ListQuery, error) {
	q := engine.ListQuery{Profile: v.Get("profile"), Text: strings.TrimSpace(chatrun.ValidText(v.Get("q")))}
	if utf8.RuneCountInString(q.Text) > maxSearch {
		return q, badRequest("q is too long")
	}
	var ok bool
	if q.Limit, ok = limit(v, defaultSessions, maxSessions); !ok {
		return q, badRequest("limit is not a number")
	}
	if s := v.Get("before"); s != "" {
		if q.Before, ok = decodeCursor(s); !ok {
			return q, badRequest("before is not a cursor of an earlier answer")
		}
	}
	if s := v.Get("archived"); s != "" {
		archived, err := strconv.ParseBool(s)
		if err != nil {
			return q, badRequest("archived is not true or false")
		}
		q.Archived = archived
	}
	return q, nil
}

func messagesQuery(v url.Values) (before int64, n int, err error) {
	n, ok := limit(v, defaultMessages, maxMessages)
	if !ok {
		return 0, 0, badRequest("limit is not a number")
	}
	if s := v.Get("before"); s != "" {
		before, err = strconv.ParseInt(s, 10, 64)
		if err != nil || before < 1 {
			return 0, 0, badRequest("before is not the id of a message")
		}
	}
	return before, n, nil
}

// limit reads a number of rows and clamps it.
func limit(v url.Values, byDefault, most int) (int, bool) {
	s := v.Get("limit")
	if s == "" {
		return byDefault, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return int(min(max(n, 1), int64(most))), true
}

// patchBody is the body of PATCH; it has the fields of engine.SessionPatch.
type patchBody struct {
	Title    *string `json:"title"`
	Model    *string `json:"model"`
	Provider *string `json:"provider"`
	Archived *bool   `json:"archived"`
}

func readPatch(w http.ResponseWriter, r *http.Request) (patchBody, error) {
	var patch patchBody
	if err := readJSON(w, r, &patch); err != nil {
		return patch, err
	}
	if patch == (patchBody{}) {
		return patch, badRequest("nothing to change: want title, model, provider or archived")
	}
	if patch.Title != nil {
		title := strings.Join(strings.Fields(*patch.Title), " ")
		patch.Title = &title
		if title == "" {
			return patch, badRequest("title is empty")
		}
	}
	for _, f := range []struct {
		name  string
		value *string
		most  int
	}{{"title", patch.Title, maxTitle}, {"model", patch.Model, maxModel}, {"provider", patch.Provider, maxModel}} {
		if f.value == nil {
			continue
		}
		if utf8.RuneCountInString(*f.value) > f.most {
			return patch, badRequest(f.name + " is longer than " + strconv.Itoa(f.most) + " characters")
		}
		if strings.ContainsFunc(*f.value, unicode.IsControl) {
			return patch, badRequest(f.name + " holds a control character")
		}
	}
	return patch, nil
}

// readJSON reads one JSON object without unknown fields.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return badRequest("want a body with Content-Type: application/json")
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, extra := dec.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("more than one value")
			if tooLarge(extra) {
				err = extra
			}
		}
	}
	switch {
	case err == nil:
		return nil
	case tooLarge(err):
		return errTooLarge
	default:
		return badRequest(describe(err))
	}
}

func tooLarge(err error) bool {
	var limit *http.MaxBytesError
	return errors.As(err, &limit)
}

// describe names the field at fault and quotes nothing else of the body.
func describe(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return kind.Field + " has the wrong type"
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return "the body has a field that is not known here: want title, model, provider or archived"
	default:
		return "the body is not one JSON object"
	}
}
