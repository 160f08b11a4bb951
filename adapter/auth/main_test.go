package auth

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// admitted authenticates and fails the test if that is refused.
func admitted(t *testing.T, a Authenticator, c Credentials) *Principal {
	t.Helper()
	p, err := a.Authenticate(context.Background(), c)
	if err != nil {
		t.Fatalf("Authenticate: %v, want a principal", err)
	}
	return p
}

// refused checks that authentication fails with want.
func refused(t *testing.T, a Authenticator, c Credentials, want error) {
	t.Helper()
	p, err := a.Authenticate(context.Background(), c)
	if !errors.Is(err, want) || p != nil {
		t.Fatalf("Authenticate: %+v, %v, want error %q", p, err, want)
	}
}

// fixed answers always the same.
type fixed struct {
	p   *Principal
	err error
}

func (f fixed) Authenticate(context.Context, Credentials) (*Principal, error) { return f.p, f.err }
