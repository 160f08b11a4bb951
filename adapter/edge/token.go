package edge

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

const (
	// tokenSecret is the name of the access token among the secrets of the nodes.
	tokenSecret = "access_token"
	// tokenInterval is how often a node looks whether another one has replaced it.
	tokenInterval = 5 * time.Second
	// rotateTimeout bounds the replacement.
	rotateTimeout = 5 * time.Second
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

// openToken loads or makes the access token if the current generation needs it: in
// the data directory, or in the store that all nodes share.
func (c *Core) openToken(ctx context.Context, g *generation) error {
	if !g.settings.NeedsToken || c.token.Load() != nil {
		return nil
	}
	open := func() (*auth.Generated, error) { return auth.OpenGenerated(g.settings.DataDir) }
	if c.shared != nil {
		open = func() (*auth.Generated, error) { return sharedToken(ctx, c.shared) }
	}
	token, err := open()
	if err != nil {
		return err
	}
	c.token.Store(token)
	return nil
}

// sharedToken takes the access token that all nodes have, or makes it.
func sharedToken(ctx context.Context, secrets store.Secrets) (*auth.Generated, error) {
	text, err := secrets.Secret(ctx, tokenSecret, auth.NewAccessToken())
	if err != nil {
		return nil, err
	}
	return auth.NewGenerated(text, func(next string) error {
		ctx, cancel := context.WithTimeout(context.Background(), rotateTimeout)
		defer cancel()
		return secrets.ReplaceSecret(ctx, tokenSecret, next)
	})
}

// refreshToken notices that another node has replaced the access token. One that
// the store has lost is stored again.
func (c *Core) refreshToken(ctx context.Context, secrets store.Secrets) {
	token := c.token.Load()
	if token == nil {
		return
	}
	known := token.Token()
	text, err := secrets.Secret(ctx, tokenSecret, known)
	if err != nil {
		return // looked at again soon
	}
	changed, err := token.Replace(known, text)
	if err != nil {
		c.log.Error("the access token in redis was replaced by something that is none; the one before stays in force", zap.Error(err))
	}
	if changed {
		c.reviewSockets()
	}
}

// AccessToken returns the generated access token, ErrNoToken if nothing uses it.
// It is for the operator's eyes, never for a log.
func (c *Core) AccessToken() (string, error) {
	token, err := c.accessToken()
	if err != nil {
		return "", err
	}
	return token.Token(), nil
}

func (c *Core) accessToken() (*auth.Generated, error) {
	if token := c.token.Load(); token != nil {
		return token, nil
	}
	if g := c.gen.Load(); g != nil && g.settings.NeedsToken {
		return nil, ErrTokenLater
	}
	return nil, ErrNoToken
}

// RotateAccessToken replaces the generated access token and returns the new one.
// Connections admitted by the old one are closed; on other nodes within 10 seconds.
func (c *Core) RotateAccessToken() (string, error) {
	token, err := c.accessToken()
	if err != nil {
		return "", err
	}
	next, err := token.Rotate()
	if err != nil {
		return "", err
	}
	c.reviewSockets()
	return next, nil
}
