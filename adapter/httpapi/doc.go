// Package httpapi is the HTTP API beside the socket: health, the signed-in user,
// and his sessions. It is a plain http.Handler and knows no web server.
//
// Paths are those of the mount: whatever prefix the site has is stripped before,
// and nothing else is. A request for the list of sessions arrives as
// /chat-run/sessions, and Claims tells which paths belong to this handler.
//
//	GET    /chat-run/health                  open; readiness
//	GET    /chat-run/health/live             open; liveness
//	GET    /chat-run/health/detailed         admin
//	GET    /api/health/agent                 admin; the path of the reference server
//	GET    /chat-run/me
//	GET    /chat-run/sessions                ?profile&q&limit&before&archived
//	GET    /chat-run/sessions/{id}
//	PATCH  /chat-run/sessions/{id}           {title?, model?, provider?, archived?}
//	DELETE /chat-run/sessions/{id}
//	GET    /chat-run/sessions/{id}/messages  ?before&limit
//	GET    /chat-run/…                       the page and its assets, if it is on
//
// Every answer that is no success is {"error": text, "code": snake_case}. The
// credential is a bearer token or what the web server knows; never a part of the
// address.
package httpapi
