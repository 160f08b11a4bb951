package engine

// ListQuery selects sessions of a list, newest activity first.
type ListQuery struct {
	Profile  string // empty: every profile the principal may use
	Text     string // words to be found in title or preview; empty: all
	Before   string // cursor returned as next by the page before; empty: the first page
	Limit    int    // most rows of a page
	Archived bool   // include archived sessions
}

// SessionPatch is a change of a session; nil fields stay as they are.
type SessionPatch struct {
	Title    *string // set by hand: no generated title replaces it
	Model    *string
	Provider *string
	Archived *bool
}
