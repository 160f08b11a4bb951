package gateway

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// T31, GW-16: a stream cut by the connection is finished from the stored response.
func TestRecoverAfterCut(t *testing.T) {
	fake, c := fakeAndClient(t, Config{Store: true})
	_, outcome, failure := ask(t, c, "[[cut]]")
	if failure == nil || failure.Class != ClassLost || outcome.ResponseID == "" {
		t.Fatalf("outcome %+v, %v", outcome, failure)
	}
	got, err := c.Recover(context.Background(), outcome.ResponseID)
	if err != nil || got.Kind != Completed || got.Text != "One two" {
		t.Fatalf("recovered %+v, %v", got, err)
	}
	before := fake.State().Requests
	for range 2 {
		if err := c.DeleteResponse(context.Background(), outcome.ResponseID); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if fake.State().Requests != before+2 {
		t.Error("delete was not sent")
	}
	if _, err := c.Recover(context.Background(), outcome.ResponseID); AsError(err) == nil || AsError(err).Class != ClassLost {
		t.Errorf("deleted response: %v", err)
	}
}

// T31, GW-51: a turn that went on without its stream is whole.
func TestRecoverAfterDrop(t *testing.T) {
	_, c := fakeAndClient(t, Config{Store: true})
	h, outcome, failure := ask(t, c, "[[drop]]")
	if failure == nil || failure.Class != ClassLost || h.text.String() != "One two" {
		t.Fatalf("text %q, %v", h.text.String(), failure)
	}
	got, err := c.Recover(context.Background(), outcome.ResponseID)
	if err != nil || got.Kind != Completed || got.Text != "One two three" || got.Usage.IsZero() {
		t.Errorf("recovered %+v, %v", got, err)
	}
}

// GW-51: what the stored states mean.
func TestStoredStates(t *testing.T) {
	const message = `"output":[{"type":"message","content":[{"type":"output_text","text":"part"}]}]`
	tests := []struct {
		name, body string
		kind       Kind
		class      Class
		over       bool
	}{
		{"in progress", `{"status":"in_progress",` + message + `}`, Failed, ClassUnknown, false},
		{"completed", `{"status":"completed",` + message + `}`, Completed, ClassUnknown, true},
		{"incomplete with usage", `{"status":"incomplete",` + message + `,"usage":{"output_tokens":4}}`, Completed, ClassUnknown, true},
		{"incomplete without usage", `{"status":"incomplete",` + message + `,"usage":{"output_tokens":0}}`, Failed, ClassLost, true},
		{"failed", `{"status":"failed",` + message + `,"error":{"message":"no"}}`, Failed, ClassProviderFailed, true},
		{"noise", `<html>`, Failed, ClassNotAGateway, true},
	}
	c := newClient(t, Config{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			outcome, err, over := c.stored([]byte(test.body))
			class := ClassUnknown
			if e := AsError(err); e != nil {
				class = e.Class
			}
			if outcome.Kind != test.kind || class != test.class || over != test.over {
				t.Errorf("got %+v, %v, %v", outcome, err, over)
			}
			if test.name != "noise" && outcome.Text != "part" {
				t.Errorf("text %q", outcome.Text)
			}
		})
	}
}

// GW-51: polling of a response that stays in progress for ever is bounded.
func TestRecoverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		c := pipeClient(t, Config{RecoverTimeout: time.Minute}, func(w http.ResponseWriter, _ *http.Request) {
			polls++
			fmt.Fprint(w, `{"status":"in_progress"}`)
		})
		start := time.Now()
		_, err := c.Recover(context.Background(), "resp_1")
		if AsError(err) == nil || AsError(err).Class != ClassLost {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took < time.Minute || took > 61*time.Second {
			t.Errorf("took %v", took)
		}
		if polls < 20 || polls > 60 {
			t.Errorf("%d polls in a minute", polls)
		}
	})
}
