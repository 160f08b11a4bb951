package caddymodule

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

const redisPrefix = "redis: "

func (a *App) parseRedis(d *caddyfile.Dispenser, args []string) error {
	r := &Redis{Addresses: args}
	a.Redis = r
	if len(args) == 0 {
		return errors.New(redisPrefix + "missing address, for example: redis redis://127.0.0.1:6379")
	}
	tls := new(RedisTLS)
	err := parseBlock(d, "redis", redisPrefix, []word{
		{name: "mode", parse: text("mode", redisSentinel, &r.Mode)},
		{name: "master", parse: text("master", "mymaster", &r.Master)},
		{name: "username", parse: text("username", "hermes", &r.Username)},
		{name: "password", parse: text("password", "{env.REDIS_PASSWORD}", &r.Password)},
		{name: "sentinel_username", parse: text("sentinel_username", "hermes", &r.SentinelUsername)},
		{name: "sentinel_password", parse: text("sentinel_password", "{env.SENTINEL_PASSWORD}", &r.SentinelPassword)},
		{name: "prefix", parse: text("prefix", defaultRedisPrefix, &r.Prefix)},
		{name: "timeout", parse: duration("timeout", "1s", minWait, maxRedisWait, &r.Timeout)},
		{name: "durability", parse: text("durability", durabilityReplica, &r.Durability)},
		{name: "tls_ca", parse: func(args []string) error {
			if len(args) == 0 {
				return errors.New("tls_ca needs at least one file")
			}
			tls.CA = args
			return nil
		}},
		{name: "tls_client_auth", parse: func(args []string) error {
			if len(args) != 2 {
				return errors.New("tls_client_auth takes the files of a certificate and its key, for example: tls_client_auth client.pem client.key")
			}
			tls.ClientCertificate, tls.ClientKey = args[0], args[1]
			return nil
		}},
		{name: "tls_server_name", parse: text("tls_server_name", "redis.example.com", &tls.ServerName)},
		{name: "tls_insecure_skip_verify", parse: bare("tls_insecure_skip_verify", &tls.InsecureSkipVerify)},
	})
	if err != nil {
		return err
	}
	if !tls.isZero() {
		r.TLS = tls
	}
	if err := r.check(); err != nil {
		return located(d, redisPrefix, err)
	}
	if r.hasPlaceholders() {
		return nil // what is known only in Provision is checked there
	}
	if _, err := r.combine(r.Addresses); err != nil {
		return located(d, redisPrefix, err)
	}
	return nil
}

func (a *App) parseNode(d *caddyfile.Dispenser, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("node takes one name, got %q too", args[1])
	}
	n := new(Node)
	a.Node = n
	if len(args) == 1 {
		n.Name = args[0]
		if err := checkNodeName(n.Name); err != nil {
			return located(d, nodePrefix, err)
		}
	}
	return parseBlock(d, "node", nodePrefix, []word{
		{name: "advertise", parse: one("advertise", "10.0.0.5:2643", func(value string) error {
			n.Advertise = value
			return checkAdvertise(value)
		})},
	})
}
