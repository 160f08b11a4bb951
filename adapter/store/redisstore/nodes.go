package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// maxNodes bounds how many living nodes are answered.
const maxNodes = 1024

// Announce implements store.Nodes. The name is entered before the record that it
// points at.
func (st *Store) Announce(ctx context.Context, n store.Node, ttl time.Duration) error {
	ms := max(1, ttl.Milliseconds())
	if _, err := st.call(ctx, "nodes", []string{st.nodesKey()}, n.Name, ms); err != nil {
		return err
	}
	_, err := st.call(ctx, "node_save", []string{st.nodeKey(n.Name)}, ms, 6,
		"name", n.Name, "address", n.Address, "fingerprint", n.Fingerprint, "version", n.Version,
		"runs", n.Runs, "caps", strings.Join(n.Caps, " "))
	return err
}

// Resign implements store.Nodes.
func (st *Store) Resign(ctx context.Context, name string) error {
	if _, err := st.call(ctx, "node_save", []string{st.nodeKey(name)}, 0); err != nil {
		return err
	}
	_, err := st.call(ctx, "nodes", []string{st.nodesKey()}, name, 0)
	return err
}

// LookupNode implements store.Nodes.
func (st *Store) LookupNode(ctx context.Context, name string) (store.Node, bool, error) {
	r, err := st.call(ctx, "node_read", []string{st.nodeKey(name)})
	if err != nil {
		return store.Node{}, false, err
	}
	n, ok := toNode(r.list())
	return n, ok, nil
}

func toNode(record []any) (store.Node, bool) {
	f := fields(record)
	return store.Node{
		Name: f["name"], Address: f["address"], Fingerprint: f["fingerprint"], Version: f["version"],
		Runs: int(number(f["runs"])), Caps: strings.Fields(f["caps"]),
	}, f["name"] != ""
}

// LiveNodes implements store.Nodes.
func (st *Store) LiveNodes(ctx context.Context) ([]store.Node, error) {
	r, err := st.call(ctx, "nodes", []string{st.nodesKey()}, "", 0)
	if err != nil {
		return nil, err
	}
	var keys [][]string
	for _, name := range r.list() {
		if len(keys) < maxNodes {
			keys = append(keys, []string{st.nodeKey(text(name))})
		}
	}
	var live []store.Node
	for page := range slices.Chunk(keys, pipelineBatch) {
		replies, errs := st.pipeline(ctx, "node_read", page)
		for i, r := range replies {
			if errs[i] != nil {
				return nil, fmt.Errorf("read the living nodes: %w", errs[i])
			}
			if n, ok := toNode(r.list()); ok {
				live = append(live, n)
			}
		}
	}
	slices.SortFunc(live, func(a, b store.Node) int { return cmp.Compare(a.Name, b.Name) })
	return live, nil
}

// Notify implements store.Nodes.
func (st *Store) Notify(ctx context.Context, node string, n store.Notice) error {
	if err := st.leave(ctx); err != nil {
		return err
	}
	return st.publish(ctx, st.noticeChannel(node), n.Kind+" "+n.Subject, false)
}

// publish publishes everywhere, or on the shard of the channel only.
func (st *Store) publish(ctx context.Context, channel, text string, sharded bool) error {
	l := st.use()
	defer l.release()
	ctx, cancel := l.timeout(ctx)
	defer cancel()
	if sharded {
		return mapError(ctx, l.client.SPublish(ctx, channel, text).Err())
	}
	return mapError(ctx, l.client.Publish(ctx, channel, text).Err())
}

// OnNotice implements store.Nodes.
func (st *Store) OnNotice(f func(store.Notice)) { st.notice.Store(&f) }

// noticed hands a notice over. Our own probe is none.
func (st *Store) noticed(m *redis.Message) {
	kind, subject, ok := strings.Cut(m.Payload, " ")
	if f := st.notice.Load(); ok && f != nil {
		(*f)(store.Notice{Kind: kind, Subject: subject})
	}
}

// Secret implements store.Secrets.
func (st *Store) Secret(ctx context.Context, name, candidate string) (string, error) {
	r, err := st.call(ctx, "secret", []string{st.secretKey(name)}, candidate, 0)
	if err != nil {
		return "", err
	}
	return r.str(), nil
}

// ReplaceSecret implements store.Secrets.
func (st *Store) ReplaceSecret(ctx context.Context, name, value string) error {
	_, err := st.call(ctx, "secret", []string{st.secretKey(name)}, value, 1)
	return err
}
