// Package redisstore is the store contract on Redis: standalone, behind Sentinel,
// or Cluster. Any number of nodes share it.
//
// Each operation on a session is one Lua script that checks everything and then
// writes, so that no half of an operation is ever seen. All keys of a session
// carry one hash tag, so that they stand in one slot of a cluster. Package
// scripts/ holds the scripts, each with its keys and arguments; what they share
// stands in scripts/lib and is composed when the package is loaded.
//
// Calls of many sessions to one shard share pipelines (lanes). Hints come over one
// subscription connection, in a cluster of Redis 7 or newer over one to each shard
// (hub, wire). A breaker for each shard refuses calls while it does not answer, and
// generations tell that another process serves, which may lack acknowledged writes.
//
// Redis 6.2 or newer is needed, with maxmemory-policy noeviction.
package redisstore
