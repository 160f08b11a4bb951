package caddymodule

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Variables of the reference products that are read as defaults. The gateway's
// key variables are read by the gateway package itself.
const (
	envBackend     = "HERMES_WEBUI_CHAT_BACKEND"
	envBaseURL     = "HERMES_WEBUI_GATEWAY_BASE_URL"
	envReadTimeout = "HERMES_WEBUI_GATEWAY_READ_TIMEOUT"
	envUseRuns     = "HERMES_WEBUI_GATEWAY_USE_RUNS_API"
	envJWTSecret   = "AUTH_JWT_SECRET"
	envAuthToken   = "AUTH_TOKEN"
)

// environment is where defaults come from.
type environment struct {
	getenv func(name string) string
	logger *zap.Logger
}

func (e environment) get(name string) string { return strings.TrimSpace(e.getenv(name)) }

// baseURL is the address of the default profile's gateway when none is
// configured; "" stands for the built-in one.
func (e environment) baseURL() (string, error) {
	address := e.get(envBaseURL)
	if address == "" {
		return "", nil
	}
	if err := checkAddress(address); err != nil || hasPlaceholder(address) {
		return "", fmt.Errorf("%s: want http, https or host:port, without credentials, query or fragment", envBaseURL)
	}
	return address, nil
}

// readTimeout is the default of read_timeout, 0 for the built-in one.
func (e environment) readTimeout() time.Duration {
	value := e.get(envReadTimeout)
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(seconds) || seconds <= 0 || seconds > maxWait.Seconds() {
		e.logger.Warn("variable ignored: it is not a positive number of seconds", zap.String("variable", envReadTimeout))
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// transport is the default of transport.
func (e environment) transport() string {
	switch value := strings.ToLower(e.get(envUseRuns)); {
	case value == "":
		return transportAuto
	case slices.Contains([]string{"1", "true", "yes", "on"}, value):
		e.logger.Warn("variable ignored: runs are not part of this version", zap.String("variable", envUseRuns))
		return transportAuto
	default:
		return transportResponses
	}
}

// warnBackend says so when the backend variable has a word that the reference
// would not take for the gateway. The edge has no other backend, so the word
// changes nothing.
func (e environment) warnBackend() {
	switch strings.ToLower(e.get(envBackend)) {
	case "", "gateway", "api_server", "api-server":
	default:
		e.logger.Warn("variable ignored: want gateway, api_server or api-server", zap.String("variable", envBackend))
	}
}

// jwtSecret is the secret of a jwt rule that names no key.
func (e environment) jwtSecret() string {
	if secret := e.get(envJWTSecret); secret != "" {
		return secret
	}
	return e.get(envAuthToken)
}
