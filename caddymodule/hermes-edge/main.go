// Command hermes-edge is Caddy with the Hermes Edge module built in.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/hermes-edge/hermes-edge/caddymodule"
)

func main() { caddycmd.Main() }
