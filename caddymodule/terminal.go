package caddymodule

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

func (a *App) profileList() string {
	return strings.Join(slices.Sorted(maps.Keys(a.settings.Gateways)), ", ")
}

// warnOpen names the listeners on which everybody is let in from outside.
func (a *App) warnOpen() {
	for srv, open := range a.servers {
		if !open {
			continue
		}
		for _, listen := range srv.Listen {
			if !isLoopbackListener(listen) {
				a.logger.Warn("auth off: everybody who reaches this listener may read and write all chats", zap.String("listener", listen))
			}
		}
	}
}

// showToken tells how to sign in with the generated access token. The token goes
// to a terminal only: logs leave the machine.
func (a *App) showToken() {
	if !a.settings.NeedsToken || !a.core.firstShow() {
		return
	}
	where := zap.String("file", auth.AccessTokenPath(a.settings.DataDir))
	if a.settings.Redis != nil {
		where = zap.String("kept_in", "redis")
	}
	a.logger.Info("sign in with the access token; the command \"hermes token\" of this program shows it", where)
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return
	}
	token, err := a.core.core.AccessToken()
	if err != nil {
		a.logger.Warn("access token is not available", zap.Error(err))
		return
	}
	a.writeTokenLine(os.Stderr, token)
}

func (a *App) writeTokenLine(w io.Writer, token string) {
	for srv := range a.servers {
		if base := siteAddress(srv); base != "" {
			fmt.Fprintf(w, "\nopen %s%s/#token=%s\n\n", base, pagePath, token)
			return
		}
	}
}

// siteAddress is an address under which a browser on this machine finds the site
// with our handler, as far as the configuration tells.
func siteAddress(srv *caddyhttp.Server) string {
	if len(srv.Listen) == 0 {
		return ""
	}
	addr, err := caddy.ParseNetworkAddress(srv.Listen[0])
	if err != nil || addr.IsUnixNetwork() || addr.IsFdNetwork() {
		return ""
	}
	scheme, standard := "http", uint(80)
	if len(srv.TLSConnPolicies) > 0 {
		scheme, standard = "https", 443
	}
	host := siteHost(srv)
	if host == "" {
		host = addr.Host
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			host = "localhost"
		}
	}
	if addr.StartPort != standard {
		host = net.JoinHostPort(host, fmt.Sprint(addr.StartPort))
	}
	return scheme + "://" + host
}

// siteHost is the first host name of the first route that holds our handler, ""
// if it serves every host.
func siteHost(srv *caddyhttp.Server) string {
	for _, route := range srv.Routes {
		if !holdsHandler(route.Handlers) {
			continue
		}
		for _, set := range route.MatcherSets {
			for _, matcher := range set {
				hosts, ok := matcher.(*caddyhttp.MatchHost)
				if ok && len(*hosts) > 0 && !strings.ContainsAny((*hosts)[0], "*{") {
					return (*hosts)[0]
				}
			}
		}
		return ""
	}
	return ""
}

// holdsHandler reports whether a handler of ours is among these, or in a route
// below one of them.
func holdsHandler(handlers []caddyhttp.MiddlewareHandler) bool {
	for _, handler := range handlers {
		switch h := handler.(type) {
		case *Handler:
			return true
		case *caddyhttp.Subroute:
			if slices.ContainsFunc(h.Routes, func(r caddyhttp.Route) bool { return holdsHandler(r.Handlers) }) {
				return true
			}
		}
	}
	return false
}

func isLoopbackListener(listen string) bool {
	addr, err := caddy.ParseNetworkAddress(listen)
	if err != nil {
		return false
	}
	if addr.IsUnixNetwork() || addr.IsFdNetwork() || addr.Host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(addr.Host)
	return err == nil && ip.IsLoopback()
}
