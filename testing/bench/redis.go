package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// How a Redis keeps its data.
var (
	inMemory    = []string{"--appendonly", "no"}
	everySecond = []string{"--appendonly", "yes", "--appendfsync", "everysec"}
)

const redisTimeout = 10 * time.Second

// redisServer is a redis-server process that the benchmark has started.
type redisServer struct {
	*process
	core   int
	home   string
	argv   []string
	client *redis.Client
}

// startRedis starts a Redis of its own on a core.
func (b *binaries) startRedis(ctx context.Context, core int, keeps []string) (*redisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("b5, b7, b11 and grow need redis-server 7 (-only b1,b3,b4,burst goes without): %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(b.dir, "redis-")
	if err != nil {
		return nil, err
	}
	r := &redisServer{core: core, home: home, client: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})}
	r.argv = append([]string{
		"redis-server", "--port", portOf(addr), "--bind", "127.0.0.1", "--dir", home,
		"--save", "", "--maxmemory-policy", "noeviction",
	}, keeps...)
	if err := r.launch(ctx, addr); err != nil {
		_ = r.client.Close() // the first error tells more
		return nil, err
	}
	return r, nil
}

// launch starts the process and waits until it answers: it accepts connections
// before it has read its file.
func (r *redisServer) launch(ctx context.Context, addr string) error {
	p, err := launch(ctx, r.core, addr, r.home, r.argv...)
	if err != nil {
		return err
	}
	r.process = p
	if err := p.await(ctx, func(ctx context.Context) error { return r.client.Ping(ctx).Err() }); err != nil {
		p.stop()
		return fmt.Errorf("redis-server does not answer: %w\n%s", err, p.output)
	}
	return nil
}

// stop ends the process, paused or not.
func (r *redisServer) stop() {
	_ = r.client.Close() // its connections end with the process at the latest
	_ = r.resume()       // an ended process needs none
	r.process.stop()
}

// pause stops the process in its tracks: connections stay, nothing answers.
func (r *redisServer) pause() error { return r.cmd.Process.Signal(syscall.SIGSTOP) }

func (r *redisServer) resume() error { return r.cmd.Process.Signal(syscall.SIGCONT) }

// restart starts an ended process again on the same port and files.
func (r *redisServer) restart(ctx context.Context) error { return r.launch(ctx, r.addr) }

// storeCounts are what a Redis has executed since its start.
type storeCounts struct {
	commands int64 // those inside scripts included
	scripts  int64 // calls of scripts
}

func (r *redisServer) counts(ctx context.Context) (storeCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	info, err := r.client.InfoMap(ctx, "stats", "commandstats").Result()
	if err != nil {
		return storeCounts{}, fmt.Errorf("ask Redis for its statistics: %w", err)
	}
	return parseCounts(info)
}

// parseCounts reads the sections of INFO.
func parseCounts(info map[string]map[string]string) (storeCounts, error) {
	var c storeCounts
	var err error
	if c.commands, err = strconv.ParseInt(info["Stats"]["total_commands_processed"], 10, 64); err != nil {
		return c, errors.New("the statistics of Redis have no total_commands_processed")
	}
	for name, line := range info["Commandstats"] {
		switch name {
		case "cmdstat_evalsha", "cmdstat_evalsha_ro", "cmdstat_eval", "cmdstat_eval_ro", "cmdstat_fcall", "cmdstat_fcall_ro":
			calls, _, _ := strings.Cut(strings.TrimPrefix(line, "calls="), ",")
			n, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return c, fmt.Errorf("statistics of Redis: %s: %q", name, line)
			}
			c.scripts += n
		}
	}
	return c, nil
}
