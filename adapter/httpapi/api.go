package httpapi

import "net/http"

func newAPI(cfg Config) http.Handler { return http.NotFoundHandler() }
