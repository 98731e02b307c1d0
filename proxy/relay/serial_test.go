package relay

import (
	"testing"

	"tidegate/session"
)

func TestSessionIDs(t *testing.T) {
	seen := make(map[session.ID]bool)
	for shard := range 3 {
		s := newSerials(shard, 3)
		last := session.ID(0)
		for range 100 {
			id := s.next()
			if seen[id] || id <= last || id.Shard(3) != shard {
				t.Errorf("%v after %v at %d of 3, given before: %v", id, last, shard, seen[id])
			}
			seen[id], last = true, id
			if read, err := session.ParseID(id.String()); err != nil || read != id {
				t.Errorf("%v is read as %v, %v", id, read, err)
			}
		}
	}
	for _, text := range []string{"", "0", "-1", "a b", "zzzzzzzzzzzzzzzz"} {
		if id, err := session.ParseID(text); err == nil {
			t.Errorf("%q is read as %v", text, id)
		}
	}
}
