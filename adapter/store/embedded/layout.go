package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// layout is the version of the file's buckets and keys.
const layout = 1

// Buckets. Keys of session parts are the session id, a zero byte, which no
// session id has, and the part's own key.
var (
	bucketMeta     = []byte("meta")     // layout
	bucketRoot     = []byte("root")     // sid → root
	bucketRows     = []byte("rows")     // sid 0 row id → row
	bucketQueue    = []byte("queue")    // sid 0 sequence → waiting item
	bucketLedger   = []byte("ledger")   // sid 0 ledger key → ledger record
	bucketActive   = []byte("active")   // sid → item of the active run
	bucketFold     = []byte("fold")     // sid → checkpoint of the active run
	bucketLog      = []byte("log")      // sid 0 offset → entries of the active run behind the checkpoint
	bucketBusy     = []byte("busy")     // sid → nothing: an active run or a queue
	bucketActivity = []byte("activity") // time, sid → what lists select by
	keyLayout      = []byte("layout")
)

var buckets = [][]byte{
	bucketRoot, bucketRows, bucketQueue, bucketLedger, bucketActive, bucketFold, bucketLog, bucketBusy, bucketActivity,
}

func prefixOf(sid string) []byte { return append([]byte(sid), 0) }

func partKey(sid, part string) []byte { return append(prefixOf(sid), part...) }

func numberKey(sid string, n int64) []byte {
	return binary.BigEndian.AppendUint64(prefixOf(sid), uint64(n))
}

func activityKey(updated int64, sid string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(updated)), sid...)
}

// number reads the id at the end of a numberKey.
func number(key, prefix []byte) (int64, error) {
	if len(key) != len(prefix)+8 {
		return 0, errRecord
	}
	return int64(binary.BigEndian.Uint64(key[len(prefix):])), nil
}

// prepare makes the buckets of a new file and checks the layout of an old one.
func prepare(db *bolt.DB) error {
	return db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		switch v := meta.Get(keyLayout); {
		case v == nil:
			err = meta.Put(keyLayout, binary.BigEndian.AppendUint64(nil, layout))
		case len(v) != 8:
			err = errRecord
		case binary.BigEndian.Uint64(v) > layout:
			err = fmt.Errorf("%w (layout %d, this program knows %d)", store.ErrTooNew, binary.BigEndian.Uint64(v), layout)
		}
		for _, name := range buckets {
			_, e := tx.CreateBucketIfNotExists(name)
			err = errors.Join(err, e)
		}
		return err
	})
}

// each calls do for all keys with a prefix.
func each(b *bolt.Bucket, prefix []byte, do func(k, v []byte) error) error {
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if err := do(k, v); err != nil {
			return err
		}
	}
	return nil
}

// removeAll deletes all keys with a prefix.
func removeAll(b *bolt.Bucket, prefix []byte) error {
	var keys [][]byte
	if err := each(b, prefix, func(k, _ []byte) error {
		keys = append(keys, k)
		return nil
	}); err != nil {
		return err
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
