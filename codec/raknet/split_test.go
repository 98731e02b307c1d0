package raknet

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"tidegate/codec"
)

func newReassembly(budget int) *reassembly {
	return &reassembly{budget: budget, partRoom: 1024, memory: new(buffers)}
}

// splitParts returns the parts of a message, in order.
func splitParts(id uint16, message []byte, size int) (parts []capsule) {
	count := (len(message) + size - 1) / size
	for i := range count {
		parts = append(parts, capsule{
			mode: codec.ReliableOrdered, channel: 4, order: 9, split: true, splitID: id, splitCount: uint32(count),
			splitIndex: uint32(i), payload: message[i*size : min((i+1)*size, len(message))],
		})
	}
	parts[count-1].pad = 3
	return parts
}

// addPart gives a reassembly a part, and returns the message that is complete.
func addPart(r *reassembly, c *capsule) (joined []byte, pad uint8, done bool) {
	a := r.add(0, c)
	if a == nil {
		return nil, 0, false
	}
	defer r.forget(a)
	return r.join(a, false), a.pad, true
}

func TestReassemblyJoinsInAnyOrder(t *testing.T) {
	message := bytes.Repeat([]byte("0123456789"), 500)
	rng := rand.New(rand.NewPCG(1, 2))
	r := newReassembly(1 << 20)
	for id := range uint16(50) {
		parts := splitParts(id, message, 700)
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		for i := range parts {
			if v, err := r.judge(&parts[i]); v != fresh || err != nil {
				t.Fatalf("part %d: %v, %v", i, v, err)
			}
			joined, pad, done := addPart(r, &parts[i])
			if done != (i == len(parts)-1) {
				t.Fatalf("done = %v after %d of %d parts", done, i+1, len(parts))
			}
			if done && (pad != 3 || !bytes.Equal(joined, message)) {
				t.Fatalf("joined %d bytes with pad %d, or others", len(joined), pad)
			}
			if !done {
				if v, _ := r.judge(&parts[i]); v != stale {
					t.Fatalf("the same part again is %v, want stale", v)
				}
			}
		}
	}
	if len(r.open) != 0 || r.reserved != 0 {
		t.Errorf("%d messages open and %d bytes reserved at the end, want none", len(r.open), r.reserved)
	}
}

// TestForgedPart gives a reassembly a part that contradicts the others under its ID, before and between them. The
// message arrives whole.
func TestForgedPart(t *testing.T) {
	message := bytes.Repeat([]byte("0123456789"), 500)
	for what, change := range map[string]func(c *capsule){
		"count":    func(c *capsule) { c.splitCount++ },
		"fewer":    func(c *capsule) { c.splitCount, c.splitIndex = 2, 1 },
		"mode":     func(c *capsule) { c.mode = codec.Reliable },
		"channel":  func(c *capsule) { c.channel++ },
		"order":    func(c *capsule) { c.order++ },
		"sequence": func(c *capsule) { c.sequence++ },
	} {
		for at := range 5 {
			r := newReassembly(1 << 20)
			parts := splitParts(7, message, 1000)
			forged := parts[0]
			forged.payload = make([]byte, 1000)
			change(&forged)
			for i := range parts {
				if i == at {
					if v, err := r.judge(&forged); v != fresh || err != nil {
						t.Errorf("another %s: %v, %v", what, v, err)
					}
					r.add(0, &forged)
				}
				if v, err := r.judge(&parts[i]); v != fresh || err != nil {
					t.Errorf("part %d after another %s: %v, %v", i, what, v, err)
				}
				joined, _, done := addPart(r, &parts[i])
				if done != (i == len(parts)-1) || done && !bytes.Equal(joined, message) {
					t.Errorf("part %d after another %s: done %v, %d bytes", i, what, done, len(joined))
				}
			}
			if len(r.open) != 1 || r.expire(1) != 1 || r.held != 0 {
				t.Errorf("another %s: %d messages are open, %d bytes held", what, len(r.open), r.held)
			}
		}
	}
}

// TestForgedContent gives a reassembly parts with another content than the peer's, before the peer's or behind them.
// The peer's message arrives whole, beside the one with forged parts.
func TestForgedContent(t *testing.T) {
	message := bytes.Repeat([]byte("0123456789"), 500)
	const parts, forgedFirst = 5, 1 << 5
	for forged := range 2 * forgedFirst { // a bit for each part, and one for the order
		r := newReassembly(1 << 20)
		var versions [][]byte
		take := func(c *capsule) {
			v, err := r.judge(c)
			if err != nil || v == refused {
				t.Fatalf("part %d is %v, %v", c.splitIndex, v, err)
			}
			if v != fresh {
				return
			}
			if a := r.add(0, c); a != nil {
				versions = append(versions, r.join(a, false), r.join(a, true))
				r.forget(a)
			}
		}
		all := splitParts(7, message, 1000)
		forge := func() {
			for i := range parts - 1 {
				if forged>>i&1 != 0 {
					c := all[i]
					c.payload = bytes.Repeat([]byte{byte(i)}, 1000)
					take(&c)
				}
			}
		}
		if forged&forgedFirst != 0 {
			forge()
		}
		for i := range all[:parts-1] {
			take(&all[i])
			take(&all[i])
		}
		if forged&forgedFirst == 0 {
			forge()
		}
		take(&all[parts-1])
		if !slices.ContainsFunc(versions, func(b []byte) bool { return bytes.Equal(b, message) }) || len(versions) > 2 {
			t.Errorf("%06b: %d messages arrived, and the peer's is not among them", forged, len(versions))
		}
		if r.expire(1); r.held != 0 || r.reserved != 0 {
			t.Errorf("%06b: %d bytes are held, %d reserved", forged, r.held, r.reserved)
		}
	}
}

func TestReassemblyRefusesFaultyParts(t *testing.T) {
	first := splitParts(7, make([]byte, 5000), 1000)[2]
	for _, test := range []struct {
		what   string
		change func(c *capsule)
		want   error
	}{
		{"of one part", func(c *capsule) { c.splitID, c.splitCount, c.splitIndex = 8, 1, 0 }, errSplitCount},
		{"of no part", func(c *capsule) { c.splitID, c.splitCount, c.splitIndex = 8, 0, 0 }, errSplitCount},
		{"not reliable", func(c *capsule) { c.splitID, c.mode = 8, codec.UnreliableSequenced }, errSplitUnreliable},
		{"too large", func(c *capsule) { c.splitID, c.payload = 8, make([]byte, 1025) }, errSplitSize},
	} {
		r := newReassembly(1 << 20)
		r.add(0, &first)
		other := first
		other.splitIndex = 0
		test.change(&other)
		if _, err := r.judge(&other); err != test.want || !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("a message %s: %v, want %v", test.what, err, test.want)
		}
	}
}

func TestReassemblyIsBounded(t *testing.T) {
	t.Run("messages", func(t *testing.T) {
		r := newReassembly(1 << 30)
		for id := range uint16(maxSplits) {
			r.add(0, &splitParts(id, make([]byte, 2000), 1000)[0])
		}
		if v, _ := r.judge(&splitParts(maxSplits, make([]byte, 2000), 1000)[0]); v != refused {
			t.Errorf("one message too many is %v, want refused", v)
		}
		if v, _ := r.judge(&splitParts(0, make([]byte, 2000), 1000)[1]); v != fresh {
			t.Errorf("another part of an open message is %v, want fresh", v)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		r := newReassembly(10 * 1024)
		r.add(0, &splitParts(1, make([]byte, 6000), 1000)[0])
		large, small := splitParts(2, make([]byte, 5000), 1000), splitParts(3, make([]byte, 4000), 1000)
		if v, _ := r.judge(&large[0]); v != refused || r.neverFits(&large[0]) {
			t.Errorf("a message over the rest of the budget is %v, or would never fit", v)
		}
		if v, _ := r.judge(&small[0]); v != fresh {
			t.Errorf("a message within the budget is %v, want fresh", v)
		}
	})
	t.Run("count", func(t *testing.T) {
		r := newReassembly(10 * 1024)
		for _, count := range []uint32{11, 1 << 31, 1<<32 - 1} {
			c := capsule{mode: codec.Reliable, split: true, splitCount: count}
			if v, _ := r.judge(&c); v != refused || !r.neverFits(&c) {
				t.Errorf("a message of %d parts is %v, or would fit", count, v)
			}
		}
	})
}
