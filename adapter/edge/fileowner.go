package edge

import (
	"context"
	"fmt"
	"sync"

	"github.com/hermes-edge/hermes-edge/adapter/store/embedded"
)

// fileOwners knows, for the whole process, which core has a data file open: a core
// that goes away may still hold the file when its successor starts (R4).
var fileOwners = struct {
	sync.Mutex
	cores map[string]*Core
}{cores: map[string]*Core{}}

// claimFile waits until no other core of this process has the file of c's key, and
// hurries the one that has it.
func claimFile(ctx context.Context, c *Core) error {
	for {
		fileOwners.Lock()
		owner := fileOwners.cores[c.key]
		if owner == nil || owner == c {
			fileOwners.cores[c.key] = c
			fileOwners.Unlock()
			return nil
		}
		fileOwners.Unlock()
		owner.exit.hurry()
		select {
		case <-owner.exit.released:
		case <-ctx.Done():
			return fmt.Errorf("%w: the configuration before has not finished with it", embedded.ErrLocked)
		}
	}
}

// yieldFile gives the file up.
func yieldFile(c *Core) {
	fileOwners.Lock()
	if fileOwners.cores[c.key] == c {
		delete(fileOwners.cores, c.key)
	}
	fileOwners.Unlock()
}
