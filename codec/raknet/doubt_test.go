package raknet

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
)

// begun are the parts that go-raknet has of a message, as bits. It forgets the message when it is whole.
type begun uint32

func (b *begun) take(d *doubt) {
	for _, i := range d.order() {
		if *b |= 1 << i; *b == 1<<d.parts-1 {
			*b = 0
		}
	}
}

// TestDoubtCompletes leaves nothing of a message at go-raknet, whichever of the parts that were sent again it has, and
// whether a datagram comes once or twice.
func TestDoubtCompletes(t *testing.T) {
	for parts := uint32(2); parts <= 6; parts++ {
		for again := uint64(1); again < 1<<parts; again++ {
			for had := range uint64(1<<parts - 1) {
				if had&^again != 0 {
					continue
				}
				d := doubt{parts: parts, again: partSet{again}}
				at := begun(had)
				if d.twice = again == 1<<parts-1; d.twice {
					at.take(&d)
					at.take(&d)
					d.twice = false
				}
				for copies := range 2 {
					if at.take(&d); at != 0 {
						t.Fatalf("%d parts, %b sent again, had %b: %b are left after %d datagrams", parts, again, had, at, copies+1)
					}
				}
			}
		}
	}
}

// TestNoDoubtOfOthers: a server that is not go-raknet gets no datagram that completes a message.
func TestNoDoubtOfOthers(t *testing.T) {
	l := newConnected(t, Options{})
	rng := rand.New(rand.NewPCG(1, 1))
	l.drop = func(bool, []byte) bool { return rng.IntN(3) == 0 }
	for range 20 {
		l.send(l.client, codec.ReliableOrdered, 4000, 0)
		l.client.sender.congestion.queue.lagging = true
		l.wait(100 * ms)
		if len(l.client.sender.doubts) > 0 {
			t.Fatal("our server counts as one that begins messages again")
		}
	}
	if l.wait(20 * time.Second); count(l.toServer, codec.Received) != 20 || l.client.sender.resent == 0 {
		t.Errorf("%d of 20 messages came, %d parts again", count(l.toServer, codec.Received), l.client.sender.resent)
	}
}
