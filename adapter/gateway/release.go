package gateway

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// ReleaseClass groups gateway releases by behaviour (gateway.md 9.2).
type ReleaseClass uint8

// The classes in order of age, so that they can be compared.
const (
	ReleaseUnknown ReleaseClass = iota // not detected yet
	ReleaseOld                         // before 0.12: chat completions only
	ReleaseA0                          // 0.12
	ReleaseA                           // 0.13
	ReleaseB                           // 0.14 to 0.17
	ReleaseC                           // 0.18
	ReleaseD                           // 0.19 to 0.20
	ReleaseE                           // the 0.21 line
)

var releaseLabels = [...]string{"unknown", "old", "A0", "A", "B", "C", "D", "E"}

// String returns the class's letter; a stable label.
func (c ReleaseClass) String() string {
	if int(c) >= len(releaseLabels) {
		return releaseLabels[ReleaseUnknown]
	}
	return releaseLabels[c]
}

// Info is what detection found out about a gateway.
type Info struct {
	Class    ReleaseClass
	Version  string // "" before 0.17
	Model    string // advertised name
	Features map[string]bool
}

// Detect finds the gateway's class by GET /health, GET /v1/capabilities and, if
// these do not tell, two harmless probes. It also sets the body limit of later
// turns (GW-43). Use a [Prober] to share and cache the result.
func (c *Client) Detect(ctx context.Context) (Info, error) {
	info, failure := c.detect(ctx)
	if failure != nil {
		return info, failure
	}
	return info, nil
}

func (c *Client) detect(ctx context.Context) (Info, *Error) {
	health, failure := c.health(ctx)
	if failure != nil {
		return Info{}, failure
	}
	info := Info{Version: health.Version}
	caps, failure := c.capabilities(ctx)
	switch {
	case failure == nil:
	case failure.Class == ClassNotFound:
		info.Class = ReleaseOld
		c.bodyLimit.Store(bodyLimitA0)
		return info, nil
	default:
		return info, failure
	}
	info.Model, info.Features = caps.Model, caps.Features
	info.Class, failure = c.classOf(ctx, info)
	if failure != nil {
		return info, failure
	}
	limit := int64(bodyLimit)
	if info.Class == ReleaseA0 {
		limit = bodyLimitA0
	}
	c.bodyLimit.Store(limit)
	return info, nil
}

func (c *Client) classOf(ctx context.Context, info Info) (ReleaseClass, *Error) {
	switch features := info.Features; {
	case features["run_steer"] || features["runs_idempotency"]:
		return ReleaseE, nil
	case !features["run_approval_response"] && !features["session_key_header"]:
		return ReleaseA0, nil
	case !features["run_approval_response"]:
		return ReleaseA, nil
	case info.Version == "":
		return ReleaseB, nil
	}
	if class, ok := classOfVersion(info.Version); ok {
		return class, nil
	}
	return c.classByProbes(ctx)
}

// classOfVersion reads major.minor; an unknown, higher version is class D
// without the flags of E.
func classOfVersion(version string) (ReleaseClass, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil || major < 0 {
		return 0, false
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil || minor < 0 {
		return 0, false
	}
	switch {
	case major > 0 || minor >= 19:
		return ReleaseD, true
	case minor == 18:
		return ReleaseC, true
	default:
		return ReleaseB, true
	}
}

// classByProbes tells releases apart that name no version.
func (c *Client) classByProbes(ctx context.Context) (ReleaseClass, *Error) {
	status, failure := c.probeStatus(ctx, http.MethodHead, "/health", true)
	if failure != nil {
		return ReleaseUnknown, failure
	}
	if status == http.StatusMethodNotAllowed {
		return ReleaseD, nil
	}
	status, failure = c.probeStatus(ctx, http.MethodGet, "/health/detailed", false)
	if failure != nil {
		return ReleaseUnknown, failure
	}
	if status == http.StatusUnauthorized {
		return ReleaseC, nil
	}
	return ReleaseB, nil
}
