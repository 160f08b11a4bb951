package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

func TestProvisionErrors(t *testing.T) {
	global := func(body string) string { return "{\n hermes {\n" + body + "\n }\n}\n" + siteWith("hermes_edge") }
	for _, c := range []struct {
		name, caddyfile, want string
		env                   []string
	}{
		{"key file", global("gateway http://a:1 {\n api_key {file./no/such/file}\n }"),
			`gateway "default": api_key {file./no/such/file} cannot be resolved: the file cannot be read, or is empty`, nil},
		{"unknown placeholder", global("gateway http://a:1 {\n api_key {no.such}\n }"),
			`gateway "default": api_key {no.such} cannot be resolved: unrecognized placeholder {no.such}`, nil},
		{"header", global("gateway http://a:1 {\n header X-A {env.NOT_SET}\n }"),
			`gateway "default": header X-A {env.NOT_SET} cannot be resolved: evaluated placeholder {env.NOT_SET} is empty`, nil},
		{"address", global("gateway {env.NOT_SET}"), `gateway "default": address {env.NOT_SET} cannot be resolved`, nil},
		{"address value", global("gateway {env.GATEWAY}"), `gateway "default": "ftp://x" is not an address`, []string{"GATEWAY", "ftp://x"}},
		{"address of the environment", global(""), "HERMES_WEBUI_GATEWAY_BASE_URL: want http, https or host:port", []string{envBaseURL, "http://a:b@host"}},
		{"tls_ca", global("gateway https://a:1 {\n tls_ca /no/such/file\n }"), `gateway "default": tls_ca: open /no/such/file`, nil},
		{"data_dir", global("data_dir {no.such}"), "data_dir {no.such} cannot be resolved", nil},
		{"token", siteWith("hermes_edge {\n auth token alice {env.ALICE_TOKEN}\n}"),
			`auth: token for user "alice" is empty (is {env.ALICE_TOKEN} set?)`, nil},
		{"jwt secret", siteWith("hermes_edge {\n auth jwt {\n secret {env.S}\n }\n}"), "auth: jwt: secret is empty (is {env.S} set?)", nil},
		{"jwt without a key", siteWith("hermes_edge {\n auth jwt\n}"), "auth: jwt: no key; write secret or public_key, or set AUTH_JWT_SECRET", nil},
		{"jwt key file", siteWith("hermes_edge {\n auth jwt {\n public_key /no/such/file\n }\n}"), "auth: jwt: public_key: open /no/such/file", nil},
		{"profile without a gateway", siteWith("hermes_edge {\n profiles work\n}"), `profiles: "work" has no gateway (configured: default)`, nil},
		{"origin", siteWith("hermes_edge {\n origins {env.ORIGIN}\n}"), `origins: "nowhere" is not an origin`, []string{"ORIGIN", "nowhere"}},
		{"any origin by placeholder", siteWith("hermes_edge {\n origins {env.ORIGIN}\n auth caddy_user\n}"),
			"origins: * cannot be combined with caddy_user", []string{"ORIGIN", "*"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			isolate(t)
			if len(c.env) > 0 {
				t.Setenv(c.env[0], c.env[1])
			}
			_, err := provision(t, adaptConfig(t, c.caddyfile))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// What the Caddyfile refuses while parsing is refused in JSON too.
func TestProvisionErrorsOfJSON(t *testing.T) {
	app := func(body string) string {
		return `{"apps":{"hermes":` + body + `,"http":{"servers":{"srv0":{"listen":[":8680"],"routes":[{"handle":[{"handler":"hermes_edge"}]}]}}}}}`
	}
	rule := func(body string) string {
		return string(wrapHandler(`{"handler":"hermes_edge","auth":[` + body + `]}`))
	}
	for config, want := range map[string]string{
		app(`{"gateway":{}}`): `unknown field "gateway"`,
		app(`{"gateways":{"Work":{"addresses":["http://a:1"]}}}`):                   `gateway: "Work" is not a profile name`,
		app(`{"gateways":{"work":{}}}`):                                             `gateway "work": missing address`,
		app(`{"gateways":{"work":{"addresses":["a:1","b:1"]}}}`):                    `gateway "work": several addresses`,
		app(`{"gateways":{"work":{"addresses":["a:1"],"transport":"x"}}}`):          `gateway "work": transport "x" is unknown`,
		app(`{"gateways":{"work":{"addresses":["a:1"],"read_timeout":"-1s"}}}`):     `gateway "work": read_timeout -1s is out of range`,
		app(`{"gateways":{"work":{"addresses":["a:1"],"headers":{"Host":["x"]}}}}`): `gateway "work": header Host is set by the edge itself`,
		app(`{"models":{"mode":"some"}}`):                                           `models "some" is unknown`,
		app(`{"retention":"1s"}`):                                                   `retention 1s is out of range`,
		app(`{"limits":{"message_size":1}}`):                                        `limits: message_size 1 B is out of range`,
		app(`{"limits":{"send_buffer":1}}`):                                         `limits: send_buffer 1 B is out of range`,
		app(`{"limits":{"connections":-1}}`):                                        `limits: connections -1 is out of range`,
		app(`{"limits":{"event_rate":-1}}`):                                         `limits: event_rate -1 is out of range`,
		app(`{"timeouts":{"drain":"1ms"}}`):                                         `timeouts: drain 1ms is out of range`,
		rule(`{"type":"web_ui"}`):                                                   `auth: type "web_ui" is unknown (token, jwt, caddy_user, off)`,
		rule(`{"type":"off"},{"type":"caddy_user"}`):                                `auth: off cannot be combined with other rules`,
		rule(`{"type":"off","profiles":["a"]}`):                                     `auth: a rule of type off has fields of another type`,
		rule(`{"type":"token","user":"a","token":"b","secrets":["c"]}`):             `auth: a rule of type token has fields of another type`,
		rule(`{"type":"token","user":"a"}`):                                         `auth: token for user "a" is empty`,
		rule(`{"type":"token","token":"a"}`):                                        `auth: token without a user`,
		rule(`{"type":"token","user":"a","token":"b","admin":{"x":"y"}}`):           `auth: token: admin by claim is only for jwt`,
		rule(`{"type":"token","user":"a","token":"b","admin":"yes"}`):               `admin is true, or an object of claims`,
		rule(`{"type":"token","user":"a","token":"b","profiles":["../x"]}`):         `auth: token: profiles: "../x" is not a profile name`,
		rule(`{"type":"caddy_user","placeholder":"alice"}`):                         `auth: caddy_user: "alice" is not a placeholder`,
		rule(`{"type":"jwt","leeway":"1h"}`):                                        `auth: jwt: leeway 1h0m0s is out of range`,
		string(wrapHandler(`{"handler":"hermes_edge","sessions":"public"}`)):        `sessions "public" is unknown`,
	} {
		t.Run(want, func(t *testing.T) {
			isolate(t)
			_, err := provision(t, []byte(config))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// A secret that is written into the configuration is in no error text.
func TestErrorsHoldNoSecret(t *testing.T) {
	isolate(t)
	const secret = "sk-very-secret"
	for _, config := range []string{
		"{\n hermes {\n gateway http://me:" + secret + "@host:1\n }\n}\n",
		"{\n hermes {\n gateway http://" + secret + "@host:1?x\n }\n}\n",
		siteWith("hermes_edge {\n auth token alice sha256:" + secret + "\n}"),
	} {
		text := adaptText(config)
		if strings.HasPrefix(text, "{") {
			_, err := provision(t, []byte(text))
			if err == nil {
				t.Fatalf("accepted: %s", config)
			}
			text = err.Error()
		}
		if strings.Contains(text, secret) {
			t.Errorf("the secret is in: %s", text)
		}
	}
}

// Section 5: the token is made in Start, not in Provision, readable by its owner
// only, and only where it is needed.
func TestTokenFileIsMadeAtStart(t *testing.T) {
	dir := filepath.Join(isolate(t), "caddy", "hermes")
	s, err := provision(t, adaptConfig(t, siteWith("hermes_edge")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("Provision made the data directory: %v", err)
	}
	if err := s.app.Start(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(auth.AccessTokenPath(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	folder, err := os.Stat(dir)
	if err != nil || folder.Mode().Perm() != 0o700 {
		t.Fatalf("%v %v", folder, err)
	}
	token, err := s.app.core.core.AccessToken()
	if err != nil {
		t.Fatal(err)
	}
	if status, user, admin, _ := s.whoami(t, bearer(token)...); status != 200 || user != auth.Owner || !admin {
		t.Errorf("%d %q %v", status, user, admin)
	}
	if err := s.app.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestNoTokenFileWithAuth(t *testing.T) {
	dir := filepath.Join(isolate(t), "caddy", "hermes")
	serve(t, siteWith("hermes_edge {\n auth off\n}"))
	if _, err := os.Stat(auth.AccessTokenPath(dir)); !os.IsNotExist(err) {
		t.Fatalf("token file: %v", err)
	}
}
