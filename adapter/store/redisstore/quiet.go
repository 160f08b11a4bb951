package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// quiet silences the client library's own log, which the whole process shares:
// what matters of it we log, per store and once per outage.
type quiet struct{}

// Printf implements the library's logger.
func (quiet) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })
