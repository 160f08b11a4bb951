package embedded

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// Load implements memory.Journal.
func (j *journal) Load(_ context.Context, sid string) (*memory.Image, error) {
	var img *memory.Image
	err := j.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRoot).Get([]byte(sid))
		if b == nil {
			return nil
		}
		root, err := decodeRoot(b)
		if err != nil {
			return err
		}
		img = &memory.Image{Root: root, Ledger: make(map[string]*memory.LedgerRecord)}
		return loadParts(tx, sid, img)
	})
	if err != nil {
		return nil, fmt.Errorf("load session: %w", err)
	}
	return img, nil
}

func loadParts(tx *bolt.Tx, sid string, img *memory.Image) error {
	prefix := prefixOf(sid)
	err := each(tx.Bucket(bucketQueue), prefix, func(k, v []byte) error {
		seq, err := number(k, prefix)
		if err != nil {
			return err
		}
		it, err := decodeItem(v)
		img.Queue = append(img.Queue, memory.QueuedItem{Seq: seq, Item: it})
		return err
	})
	if err != nil {
		return err
	}
	err = each(tx.Bucket(bucketLedger), prefix, func(k, v []byte) error {
		r, err := decodeLedger(v)
		img.Ledger[string(k[len(prefix):])] = r
		return err
	})
	if err != nil {
		return err
	}
	if v := tx.Bucket(bucketActive).Get([]byte(sid)); v != nil {
		if img.Active, err = decodeItem(v); err != nil {
			return err
		}
	}
	img.Checkpoint = bytes.Clone(tx.Bucket(bucketFold).Get([]byte(sid)))
	err = each(tx.Bucket(bucketLog), prefix, func(_, v []byte) error {
		entries, err := decodeLog(v)
		img.Log = append(img.Log, entries...)
		return err
	})
	if err != nil {
		return err
	}
	if (img.Root.Run != "") != (img.Active != nil) || img.Root.QueueLength != len(img.Queue) {
		return errRecord
	}
	return nil
}

// Root implements memory.Journal.
func (j *journal) Root(_ context.Context, sid string) (*memory.Root, error) {
	var root *memory.Root
	err := j.view(func(tx *bolt.Tx) (err error) {
		if b := tx.Bucket(bucketRoot).Get([]byte(sid)); b != nil {
			root, err = decodeRoot(b)
		}
		return err
	})
	return root, err
}

// Rows implements memory.Journal.
func (j *journal) Rows(_ context.Context, sid string, before int64, limit, maxBytes int) (rows []store.Row, more bool, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		prefix, c, size := prefixOf(sid), tx.Bucket(bucketRows).Cursor(), 0
		k, v := lastBefore(c, numberKey(sid, before))
		for ; k != nil && bytes.HasPrefix(k, prefix); k, v = c.Prev() {
			if len(rows) == limit {
				more = true
				break
			}
			id, err := number(k, prefix)
			if err != nil {
				return err
			}
			r, err := decodeRow(id, v)
			if err != nil {
				return err
			}
			if size += len(r.Data); size > maxBytes && len(rows) > 0 {
				more = true
				break
			}
			rows = append(rows, r)
		}
		return nil
	})
	for i, k := 0, len(rows)-1; i < k; i, k = i+1, k-1 {
		rows[i], rows[k] = rows[k], rows[i]
	}
	return rows, more, err
}

// lastBefore moves to the last key below the given one.
func lastBefore(c *bolt.Cursor, key []byte) (k, v []byte) {
	if k, _ := c.Seek(key); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// List implements memory.Journal. It walks the activity index and reads the
// roots of the sessions that it selects only.
func (j *journal) List(ctx context.Context, q store.ListQuery) (sids []string, next string, err error) {
	before, err := base64.RawURLEncoding.DecodeString(q.Before)
	if err != nil {
		return nil, "", memory.ErrCursor
	}
	err = j.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketActivity).Cursor()
		k, v := c.Last()
		if len(before) > 0 {
			k, v = lastBefore(c, before)
		}
		var last []byte
		for ; k != nil; k, v = c.Prev() {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
			}
			var l listed
			if err := decode(v, &l); err != nil || len(k) <= 8 {
				return errRecord
			}
			if h := l.session(); l.Hidden || !memory.Selects(q, &h) {
				continue
			}
			if len(sids) == q.Limit {
				next = base64.RawURLEncoding.EncodeToString(last)
				return nil
			}
			sids = append(sids, string(k[8:]))
			last = k
		}
		return nil
	})
	return sids, next, err
}

// busy returns the sessions with an active run or a queue.
func (j *journal) busy() (sids []string, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketBusy).ForEach(func(k, _ []byte) error {
			sids = append(sids, string(k))
			return nil
		})
	})
	return sids, err
}

// outdated returns at most limit sessions that may have to go: tombstones that
// have run out, and sessions last active before the given time.
func (j *journal) outdated(now, activeBefore int64, limit int) (sids []string, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketActivity).Cursor()
		for k, v := c.First(); k != nil && len(sids) < limit; k, v = c.Next() {
			var l listed
			if err := decode(v, &l); err != nil || len(k) <= 8 {
				return errRecord
			}
			updated := int64(binary.BigEndian.Uint64(k[:8]))
			if updated >= activeBefore && updated > 0 {
				return nil
			}
			if l.Until == 0 && updated < activeBefore || l.Until != 0 && now >= l.Until {
				sids = append(sids, string(k[8:]))
			}
		}
		return nil
	})
	return sids, err
}
