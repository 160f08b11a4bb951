package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

const collectLimit = 15 * time.Second

// collect asks a node for the snapshots of sessions of one user.
func collect(ctx context.Context, n node, token string, sessions []string) (map[string]Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, collectLimit)
	defer cancel()
	s, err := wire.Open(ctx, wire.Dialer{Node: func() string { return n.url }}, token, wire.Identity{})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", n.name, err)
	}
	stop := context.AfterFunc(ctx, s.Cut)
	defer stop()
	defer s.Leave()
	for _, session := range sessions {
		if err := s.Emit("resume", map[string]any{"session_id": session}); err != nil {
			return nil, fmt.Errorf("resume on %s: %w", n.name, err)
		}
	}
	found := make(map[string]Snapshot, len(sessions))
	for len(found) < len(sessions) {
		r, err := s.Next()
		if err != nil {
			return nil, fmt.Errorf("resume on %s: %w", n.name, err)
		}
		if r.Name != "resumed" {
			continue
		}
		snapshot, err := ParseSnapshot(r.Payload)
		if err != nil {
			return nil, err
		}
		found[snapshot.Session] = snapshot
	}
	return found, nil
}
