package auth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDelayed(t *testing.T) {
	user := &Principal{User: "u"}
	for _, tt := range []struct {
		name    string
		rule    fixed
		token   string
		wait    time.Duration
		counted int
	}{
		{"admitted", fixed{p: user}, "x", 0, 0},
		{"refused", fixed{err: ErrFailed}, "x", FailureDelay, 1},
		{"no credential", fixed{err: ErrFailed}, "", 0, 0},
		{"profile refused", fixed{err: ErrProfile}, "x", 0, 0},
		{"unavailable", fixed{err: ErrUnavailable}, "x", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counted := 0
				a := Delayed(tt.rule, FailureDelay, func() { counted++ })
				start := time.Now()
				p, err := a.Authenticate(t.Context(), Credentials{Token: tt.token})
				if p != tt.rule.p || !errors.Is(err, tt.rule.err) {
					t.Errorf("answer %+v, %v", p, err)
				}
				if waited := time.Since(start); waited != tt.wait || counted != tt.counted {
					t.Errorf("waited %v, counted %d, want %v, %d", waited, counted, tt.wait, tt.counted)
				}
			})
		})
	}
}

func TestDelayedEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := Delayed(fixed{err: ErrFailed}, FailureDelay, nil).Authenticate(ctx, Credentials{Token: "x"})
		if waited := time.Since(start); waited != 10*time.Millisecond || !errors.Is(err, ErrFailed) {
			t.Errorf("waited %v, %v", waited, err)
		}
	})
}

func TestDelayedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Delayed(fixed{err: ErrFailed}, FailureDelay, nil)
		answered := make(chan time.Duration, maxDelayed+1)
		attempt := func() {
			start := time.Now()
			if _, err := a.Authenticate(t.Context(), Credentials{Token: "x"}); !errors.Is(err, ErrFailed) {
				t.Errorf("answer %v", err)
			}
			answered <- time.Since(start)
		}
		for range maxDelayed {
			go attempt()
		}
		synctest.Wait()
		attempt()
		if waited := <-answered; waited != 0 {
			t.Errorf("over the bound: waited %v", waited)
		}
		for range maxDelayed {
			if waited := <-answered; waited != FailureDelay {
				t.Errorf("within the bound: waited %v", waited)
			}
		}
		attempt()
		if waited := <-answered; waited != FailureDelay {
			t.Errorf("with room again: waited %v", waited)
		}
	})
}
