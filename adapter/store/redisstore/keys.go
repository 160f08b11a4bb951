package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// indexShards is the number of keys of the work index.
const indexShards = 16

var errSID = fmt.Errorf("%w: a session id has 1 to 200 bytes of UTF-8 without control characters", store.ErrUnavailable)

func checkSID(sid string) error {
	if sid == "" || len(sid) > 200 || !utf8.ValidString(sid) {
		return errSID
	}
	for _, r := range sid {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return errSID
		}
	}
	return nil
}

// escape percent-encodes an id, so that none can look like another key or move
// the hash tag.
func escape(id string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._~-", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// unescape undoes escape.
func unescape(k string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(k); i++ {
		if k[i] != '%' {
			b.WriteByte(k[i])
			continue
		}
		if i+2 >= len(k) {
			return "", fmt.Errorf("broken id %q", k)
		}
		c, err := strconv.ParseUint(k[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("broken id %q: %w", k, err)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}

// sessionKey names a key of a session (contract 2.1). sid is checked.
func (st *Store) sessionKey(name, sid string) string {
	return st.opts.Prefix + name + "{s:" + escape(sid) + "}"
}

// indexKeys names the keys of the work index.
func (st *Store) indexKeys() []string {
	keys := make([]string, indexShards)
	for i := range keys {
		keys[i] = st.opts.Prefix + "w{w:" + strconv.Itoa(i) + "}"
	}
	return keys
}

func (st *Store) indexKey(sid string) string {
	h := fnv.New32a()
	h.Write([]byte(sid))
	return st.opts.Prefix + "w{w:" + strconv.Itoa(int(h.Sum32()%indexShards)) + "}"
}

func (st *Store) ownerList(user string) string { return st.opts.Prefix + "u{u:" + escape(user) + "}" }

func (st *Store) profileList(profile string) string {
	return st.opts.Prefix + "u{p:" + escape(profile) + "}"
}

// profilesKey names the set of all profiles that have sessions.
func (st *Store) profilesKey() string { return st.opts.Prefix + "u{p}" }

func (st *Store) connKey(pid string) string {
	sum := sha256.Sum256([]byte(pid))
	return st.opts.Prefix + "c{c:" + hex.EncodeToString(sum[:16]) + "}"
}

// nodeChannel is the channel of this node: kicks, work and the probe of its
// subscriptions.
func (st *Store) nodeChannel() string { return st.noticeChannel(st.opts.Node) }

func (st *Store) noticeChannel(node string) string {
	return st.opts.Prefix + "c{n:" + escape(node) + "}"
}

func (st *Store) nodeKey(node string) string { return st.opts.Prefix + "n{n:" + escape(node) + "}" }

// nodesKey names the set of nodes that may live.
func (st *Store) nodesKey() string { return st.opts.Prefix + "n{n}" }

func (st *Store) secretKey(name string) string { return st.opts.Prefix + "p{p}:" + escape(name) }

// slotKeys names the keys of a gateway's places and of those that wait for one.
func (st *Store) slotKeys(gateway string) []string {
	tag := "{g:" + escape(gateway) + "}"
	return []string{st.opts.Prefix + "g" + tag, st.opts.Prefix + "gw" + tag}
}
