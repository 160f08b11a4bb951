package store

import (
	"context"
	"time"
)

// ConnRoom is one session that a connection follows.
type ConnRoom struct {
	Index       int // never reused within a record
	SID         string
	Incarnation string
	Base        Position // confirmed by the client; zero value: none confirmed
	ShownRun    string
}

// ConnRecord is what survives a connection for its recovery (contract section 6).
type ConnRecord struct {
	PID     string // private id, 128 random bits; stored hashed
	User    string
	Profile string // handshake profile
	CID     string // Socket.IO sid
	Holder  string // node/connection nonce
	Rooms   []ConnRoom
}

// Connections keeps connection records.
type Connections interface {
	// SaveConn writes the whole record: OK or Taken (another holder).
	SaveConn(ctx context.Context, r ConnRecord, ttl time.Duration) (Code, error)
	// TouchConn prolongs it: OK, Taken or None.
	TouchConn(ctx context.Context, pid, holder string, ttl time.Duration) (Code, error)
	// ClaimConn replaces the holder and answers the record as it was: OK, None, or
	// Forbidden if it belongs to another user.
	ClaimConn(ctx context.Context, pid, user, holder string, ttl time.Duration) (Code, ConnRecord, error)
	// DropConn removes it if the holder is still this one.
	DropConn(ctx context.Context, pid, holder string) error
}
