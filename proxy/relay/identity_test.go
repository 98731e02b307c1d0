package relay

import "testing"

// TestClientIDs takes all IDs of the second of three shards, and takes a freed ID again.
func TestClientIDs(t *testing.T) {
	ids := newClientIDs(shard{1, 3}, [32]byte{1})
	seen := make(map[uint16]bool)
	for {
		id, ok := ids.take()
		if !ok {
			break
		}
		if id%3 != 2 || seen[id] {
			t.Fatalf("%d is another shard's, or taken", id)
		}
		seen[id] = true
	}
	if want := (65535-2)/3 + 1; len(seen) != want {
		t.Fatalf("%d IDs were to be had, want %d", len(seen), want)
	}
	ids.free(2)
	if got, ok := ids.take(); !ok || got != 2 {
		t.Fatalf("after one was freed, take = %d, %v", got, ok)
	}
}

// TestClientIDsCannotBeGuessed asserts that the IDs depend on the secret alone, and cover the whole range.
func TestClientIDsCannotBeGuessed(t *testing.T) {
	one, other := newClientIDs(shard{0, 1}, [32]byte{1}), newClientIDs(shard{0, 1}, [32]byte{2})
	same, high := 0, 0
	for range 1000 {
		a, _ := one.take()
		b, _ := other.take()
		if a == b {
			same++
		}
		if a >= 1<<15 {
			high++
		}
	}
	if same > 5 || high < 400 || high > 600 {
		t.Errorf("of 1000 IDs %d are the same by another secret, %d in the upper half", same, high)
	}
}
