// Package caddymodule is Hermes Edge as a Caddy module: the app "hermes" (what
// exists once in a process), the handler "hermes_edge" (who may come in where,
// and what is shown), the admin routes below /hermes/ and the sub-command
// "token". It is the only package that imports Caddy; it parses, resolves and
// hands over, the work is done in the adapter packages.
package caddymodule
