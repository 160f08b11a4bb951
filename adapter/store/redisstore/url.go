package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ParseURL reads where Redis is:
//
//	redis://[user[:password]@]host[:port][/db]
//	redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/master[?db=0]
//	redis+cluster://[user[:password]@]host[:port][,host[:port]…]
//	unix://[user:password@]/path[?db=0]
//
// rediss instead of redis stands for TLS. Errors never repeat the URL, which may
// hold a password.
func ParseURL(text string) (Options, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return Options{}, errScheme
	}
	authority, tail, slash := strings.Cut(rest, "/")
	if !slash {
		authority, tail, _ = strings.Cut(rest, "?")
		if tail != "" {
			tail = "?" + tail
		}
	}
	var o Options
	if err := o.scheme(scheme); err != nil {
		return Options{}, err
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if err := o.user(authority[:i]); err != nil {
			return Options{}, err
		}
		authority = authority[i+1:]
	}
	if scheme == "unix" {
		return o, o.socket(authority, tail)
	}
	if err := o.hosts(authority); err != nil {
		return Options{}, err
	}
	return o, o.path(tail)
}

// socket reads the path of a Unix socket.
func (o *Options) socket(host, tail string) error {
	name, query, _ := strings.Cut(tail, "?")
	path, err := url.PathUnescape(name)
	if host != "" || name == "" || err != nil {
		return errors.New("redis URL: unix:// is followed by an absolute path, e.g. unix:///run/redis.sock")
	}
	o.Addrs = []string{"/" + path}
	return o.path("?" + query)
}

var errScheme = errors.New("redis URL: it begins with redis://, rediss:// or unix://")

func (o *Options) scheme(scheme string) error {
	base, mode, _ := strings.Cut(scheme, "+")
	switch base {
	case "unix":
		if mode != "" {
			return errors.New("redis URL: a Unix socket leads to one server")
		}
	case "redis":
	case "rediss":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return errScheme
	}
	switch mode {
	case "":
		o.Mode = Standalone
	case "sentinel":
		o.Mode = Sentinel
	case "cluster":
		o.Mode = Cluster
	default:
		return fmt.Errorf("redis URL: unknown mode %q, want sentinel or cluster", mode)
	}
	return nil
}

func (o *Options) user(info string) error {
	user, password, _ := strings.Cut(info, ":")
	var err error
	if o.Username, err = url.PathUnescape(user); err == nil {
		o.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("redis URL: user or password is not percent-encoded")
	}
	return nil
}

func (o *Options) hosts(list string) error {
	port := "6379"
	if o.Mode == Sentinel {
		port = "26379"
	}
	for h := range strings.SplitSeq(list, ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p = strings.Trim(h, "[]"), port
			if strings.Count(host, ":") == 1 {
				return errors.New("redis URL: broken host and port")
			}
		}
		if n, err := strconv.Atoi(p); host == "" || err != nil || n < 1 || n > 65535 {
			return errors.New("redis URL: each host needs a name and may have a port from 1 to 65535")
		}
		o.Addrs = append(o.Addrs, net.JoinHostPort(host, p))
	}
	if o.Mode == Standalone && len(o.Addrs) > 1 {
		return errors.New("redis URL: several hosts need redis+sentinel:// or redis+cluster://")
	}
	return nil
}

// path reads what follows the hosts: the database, or the master's name.
func (o *Options) path(tail string) error {
	name, query, _ := strings.Cut(tail, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("redis URL: broken query")
	}
	db := values.Get("db")
	delete(values, "db")
	for k := range values {
		return fmt.Errorf("redis URL: unknown parameter %q", k)
	}
	switch o.Mode {
	case Sentinel:
		if o.Master, err = url.PathUnescape(name); err != nil || o.Master == "" {
			return errors.New("redis URL: the name of the master is missing, e.g. redis+sentinel://host:26379/mymaster")
		}
	case Standalone:
		if name != "" {
			db = name
		}
	default:
		if name != "" || db != "" {
			return errors.New("redis URL: a cluster has database 0 only")
		}
	}
	if db == "" {
		return nil
	}
	if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
		return errors.New("redis URL: the database is a number from 0")
	}
	return nil
}
