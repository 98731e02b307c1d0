package codectest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
)

// toySaved has the states of saved toys by their records. The toy so needs no format.
var toySaved = make(map[[sha256.Size]byte]*toyConn)

// Save writes a digest of the state, which a saved copy has. Times count as durations.
func (c *toyConn) Save(now time.Time, b []byte) []byte {
	digest := sha256.Sum256(c.appendState(now))
	toySaved[digest] = c.copy()
	if c.fault == "says goodbye when saved" {
		c.Close(now, codec.Goodbye{Reason: codec.Closed})
	}
	if c.fault == "overwrites when saved" {
		b = b[:0]
	}
	return append(b, digest[:]...)
}

// appendState appends all that copy copies. The large arrays are mostly empty.
func (c *toyConn) appendState(now time.Time) []byte {
	b := binary.AppendVarint(nil, now.UnixNano())
	for _, n := range c.seen {
		b = binary.AppendVarint(b, int64(n))
	}
	for i := range c.slots {
		if c.slots[i].used {
			b = fmt.Appendf(b, "%d %+v", i, c.slots[i])
		}
		if c.held[i].used {
			b = fmt.Appendf(b, "%d %+v", i, c.held[i])
		}
	}
	return fmt.Appendf(b, "%v %v %v %v %v %v %v %v %v", c.ask, c.goodbye, c.acks, c.heard, c.pingAt,
		c.handshakeAt, c.stats, c.numbers(), []bool{c.server, c.joined, c.over, c.tentative, c.admitted,
			c.handshake, c.ping, c.pong, c.answered})
}

func (c *toyConn) numbers() []uint64 {
	return []uint64{
		uint64(c.welcome), c.identity, uint64(c.nextSeq), uint64(c.nextOrder), uint64(c.newest), uint64(c.sequenced),
		uint64(c.notified), uint64(c.expected),
	}
}

func (p *toyProtocol) Restore(now time.Time, _ codec.Addresser, saved []byte) (codec.Conn, error) {
	if len(saved) != sha256.Size || toySaved[[sha256.Size]byte(saved)] == nil {
		if p.fault == "takes any record" {
			return p.conn(now), nil
		}
		return nil, codec.ErrSaved
	}
	c := toySaved[[sha256.Size]byte(saved)].copy()
	switch p.fault {
	case "forgets a number":
		c.nextSeq++
	case "forgets a deadline":
		c.pingAt = c.pingAt.Add(time.Second)
	case "forgets a count":
		c.stats.Sent = 0
	case "forgets its welcome":
		c.welcome = 0
	}
	return c, nil
}

func (c *toyConn) copy() *toyConn {
	d := *c
	d.ask, d.goodbye, d.events = bytes.Clone(c.ask), bytes.Clone(c.goodbye), nil
	d.acks, d.hoard, d.polled = append([]toySeq(nil), c.acks...), nil, 0
	for i := range d.slots {
		d.slots[i].datagram = bytes.Clone(c.slots[i].datagram)
	}
	for i := range d.held {
		d.held[i].message.Payload = bytes.Clone(c.held[i].message.Payload)
	}
	return &d
}

// TestBrokenSavesFail breaks one promise of Save and Restore at a time.
func TestBrokenSavesFail(t *testing.T) {
	for _, test := range []struct{ fault, check, says string }{
		{"forgets a number", "save", "saves"},
		{"forgets a deadline", "save", "timeout"},
		{"forgets a count", "save", "figures"},
		{"forgets its welcome", "saved-fields", "welcome is neither restored"},
		{"says goodbye when saved", "save", "other datagrams than its twin"},
		{"overwrites when saved", "save", "does not only append"},
		{"takes any record", "save", "want ErrSaved"},
	} {
		w := runCheck(t, test.check, toyConfig(test.fault))
		if !strings.Contains(strings.Join(w.errors, "\n"), test.says) {
			t.Errorf("a codec that %q passes %s, or fails for other reasons: %.300q", test.fault, test.check, w.errors)
		}
	}
}
