package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Problems implements store.Shared: what is wrong with the servers although they answer: each
// problem is one line that says what to do. Where INFO is not permitted nothing
// can be told.
func (st *Store) Problems(ctx context.Context) ([]string, error) {
	if err := st.leave(ctx); err != nil {
		return nil, err
	}
	l := st.use()
	defer l.release()
	ctx, cancel := l.timeout(ctx)
	defer cancel()
	var mu sync.Mutex
	var found []string
	look := func(ctx context.Context, c redis.Cmdable, addr string) error {
		for _, section := range []string{"server", "memory", "replication"} { // before version 7 only one at a time
			info, err := c.InfoMap(ctx, section).Result()
			if redis.HasErrorPrefix(err, "NOPERM") {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			found = append(found, problems(addr, info, l.opts.Durability)...)
			mu.Unlock()
		}
		return nil
	}
	var err error
	if c, ok := l.client.(*redis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return look(ctx, c, c.Options().Addr) })
	} else {
		err = look(ctx, l.client, strings.Join(st.opts.Addrs, ","))
	}
	return found, mapError(ctx, err)
}

var errVersion = errors.New("no version")

func problems(addr string, info map[string]map[string]string, d Durability) []string {
	var found []string
	if v := info["Server"]["redis_version"]; older(v, 6, 2) {
		found = append(found, fmt.Sprintf("redis %s has version %s; use 6.2 or newer", addr, v))
	}
	if p := info["Memory"]["maxmemory_policy"]; p != "" && p != "noeviction" {
		found = append(found, fmt.Sprintf("redis %s may drop sessions when memory is short: set maxmemory-policy noeviction instead of %s", addr, p))
	}
	if n := info["Replication"]["connected_slaves"]; d == DurabilityReplica && n == "0" {
		found = append(found, fmt.Sprintf("redis %s has no replica to confirm writes: connect one, or set no durability", addr))
	}
	return found
}

// older reports whether a version is below major.minor. One that cannot be read
// is taken for new.
func older(version string, major, minor int) bool {
	a, b, err := parseVersion(version)
	return err == nil && (a < major || (a == major && b < minor))
}

func parseVersion(version string) (major, minor int, err error) {
	part := strings.SplitN(version, ".", 3)
	if len(part) < 2 {
		return 0, 0, errVersion
	}
	if major, err = strconv.Atoi(part[0]); err != nil {
		return 0, 0, errVersion
	}
	if minor, err = strconv.Atoi(part[1]); err != nil {
		return 0, 0, errVersion
	}
	return major, minor, nil
}
