package chaos

import (
	"context"
	"fmt"
	"time"
)

const collectLimit = 15 * time.Second

// collect asks a node for the snapshots of sessions of one user.
func collect(ctx context.Context, d dialer, token string, sessions []string) (map[string]Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, collectLimit)
	defer cancel()
	s, err := open(ctx, d, token, identity{})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", d.node, err)
	}
	stop := context.AfterFunc(ctx, s.transport.cut)
	defer stop()
	defer s.leave()
	for _, session := range sessions {
		if err := s.emit("resume", map[string]any{"session_id": session}); err != nil {
			return nil, fmt.Errorf("resume on %s: %w", d.node, err)
		}
	}
	found := make(map[string]Snapshot, len(sessions))
	for len(found) < len(sessions) {
		r, err := s.next()
		if err != nil {
			return nil, fmt.Errorf("resume on %s: %w", d.node, err)
		}
		if r.name != "resumed" {
			continue
		}
		snapshot, err := ParseSnapshot(r.payload)
		if err != nil {
			return nil, err
		}
		found[snapshot.Session] = snapshot
	}
	return found, nil
}
