package engineio

import "context"

// Lifetime is a context made only when somebody asks for it: an idle
// connection should not pay for one. The owner guards it with its own lock.
type Lifetime struct {
	ctx    context.Context
	cancel context.CancelFunc
	ended  bool
}

// Context is ended by End.
func (l *Lifetime) Context() context.Context {
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(context.Background())
		if l.ended {
			l.cancel()
		}
	}
	return l.ctx
}

// End ends the context, now or when it is first asked for.
func (l *Lifetime) End() {
	l.ended = true
	if l.cancel != nil {
		l.cancel()
	}
}
