package edge

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

// generatedAuth admits by the core's access token. Until the token could be read
// nobody is refused for good: the client is to come again.
type generatedAuth struct{ core *Core }

// Authenticate implements auth.Authenticator.
func (a generatedAuth) Authenticate(ctx context.Context, c auth.Credentials) (*auth.Principal, error) {
	token := a.core.token.Load()
	if token == nil {
		return nil, auth.ErrUnavailable
	}
	return token.Authenticate(ctx, c)
}

// Review implements auth.Reviewer.
func (a generatedAuth) Review(p *auth.Principal) (*auth.Principal, bool) {
	token := a.core.token.Load()
	if token == nil {
		return nil, false
	}
	return token.Review(p)
}

// openToken loads or makes the access token if the current generation needs it.
func (c *Core) openToken(g *generation) error {
	if !g.settings.NeedsToken || c.token.Load() != nil {
		return nil
	}
	token, err := auth.OpenGenerated(g.settings.DataDir)
	if err != nil {
		return err
	}
	c.token.Store(token)
	return nil
}

// AccessToken returns the generated access token, ErrNoToken if nothing uses it.
// It is for the operator's eyes, never for a log.
func (c *Core) AccessToken() (string, error) {
	token := c.token.Load()
	if token == nil {
		return "", ErrNoToken
	}
	return token.Token(), nil
}

// RotateAccessToken replaces the generated access token and returns the new one.
// Connections admitted by the old one are closed.
func (c *Core) RotateAccessToken() (string, error) {
	token := c.token.Load()
	if token == nil {
		return "", ErrNoToken
	}
	next, err := token.Rotate()
	if err != nil {
		return "", err
	}
	c.reviewSockets()
	return next, nil
}
