package riptide

import (
	"math/rand/v2"
	"testing"

	"tidegate/codec"
)

func TestNotifyReceives(t *testing.T) {
	n := newNotifier(1)
	for _, step := range []struct {
		what string
		s    seq
		want bool
		bits uint8
	}{
		{"the first claims number 0 too, as the library does", 1, true, 0x01},
		{"again", 1, false, 0x01},
		{"a gap", 4, true, 0x0c},
		{"late", 3, false, 0x0c},
		{"a gap of all bits", 12, true, 0x80},
		{"a gap of more", 30, true, 0x00},
	} {
		if got := n.receive(step.s); got != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
		if h := n.header(); h.bits != step.bits || h.last != n.last {
			t.Errorf("%s: last %d, bits %02x, want %d, %02x", step.what, h.last, h.bits, n.last, step.bits)
		}
		n.number()
	}
}

// sender22 is a sender of notify messages like the library's: it tells its game the fate of each message.
type sender22 struct {
	acked           seq
	delivered, lost []seq
}

// acknowledged handles the peer's report as the library does.
func (s *sender22) acknowledged(h *notifyHeader) {
	for h.last.minus(s.acked) > 0 {
		s.acked++
		if back := h.last.minus(s.acked); back == 0 || back < notifyReach && h.bits&(1<<(back-1)) != 0 {
			s.delivered = append(s.delivered, s.acked)
		} else {
			s.lost = append(s.lost, s.acked)
		}
	}
}

// TestNotifyTellsTheTruth: a peer learns the fate of each of its messages. This also holds when many arrive while we
// send nothing, with any losses among them, and across the wrap of their numbers.
func TestNotifyTellsTheTruth(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 22))
		first := seq(65000)
		n, peer := newNotifier(first), sender22{acked: first - 1}
		loss := rng.Float64() * 0.9
		received := map[seq]bool{}
		s := first
		for range 100 {
			for range rng.IntN(notifyMemory / 4) { // a stall: the peer sends, we do not
				if rng.Float64() >= loss {
					received[s] = n.receive(s)
				}
				s++
			}
			for range notifyMemory/4/notifyReach + 3 {
				h := n.header()
				n.number()
				peer.acknowledged(&h)
			}
			if peer.acked != n.last {
				t.Fatalf("seed %d: the peer knows of messages up to %d, of %d", seed, peer.acked, n.last)
			}
		}
		for _, s := range peer.lost {
			if received[s] {
				t.Fatalf("seed %d: message %d was received, and reported as lost", seed, s)
			}
		}
		for _, s := range peer.delivered {
			if !received[s] {
				t.Fatalf("seed %d: message %d was lost, and reported as delivered", seed, s)
			}
		}
	}
}

// TestNotifyForgets: messages before the newest notifyMemory are forgotten. None of them is reported as arrived unless
// it was.
func TestNotifyForgets(t *testing.T) {
	n, peer := newNotifier(1), sender22{}
	for s := seq(1); s <= 1000; s++ {
		if s%2 == 0 {
			n.receive(s)
		}
	}
	n.receive(30000)
	for range notifyMemory {
		h := n.header()
		n.number()
		peer.acknowledged(&h)
	}
	if len(peer.delivered) != 1 || peer.acked != 30000 {
		t.Errorf("reported %d, up to %d; want only the newest", peer.delivered, peer.acked)
	}
	for s := seq(30001); s <= 30600; s++ {
		n.receive(s)
	}
	for range notifyMemory {
		h := n.header()
		n.number()
		peer.acknowledged(&h)
	}
	if got := len(peer.delivered) - 1; got < notifyMemory-2*notifyReach || peer.acked != 30600 {
		t.Errorf("reported %d of 600, up to %d; want about %d", got, peer.acked, notifyMemory)
	}
	n.receive(30700) // unreported, and then half of all numbers are skipped
	farthest := seq(30700) + 1<<15 - 1
	n.receive(farthest)
	if h := n.header(); h.last != farthest || h.bits != 0 {
		t.Errorf("after a jump to %d the header reports %d, bits %02x", farthest, h.last, h.bits)
	}
}

// settle gives n an acknowledgement and returns the receipts that it settles, lost ones negative.
func settle(n *notifier, h notifyHeader) (lost int, receipts []int) {
	news, lost, _ := n.acknowledged(&h)
	if !news {
		return 0, nil
	}
	for r, delivered, ok := n.decide(&h); ok; r, delivered, ok = n.decide(&h) {
		if delivered {
			receipts = append(receipts, int(r))
		} else {
			receipts = append(receipts, -int(r))
		}
	}
	return lost, receipts
}

func TestNotifyReceiptsAcrossWrap(t *testing.T) {
	n := newNotifier(65530)
	for r := range codec.Receipt(20) {
		h := n.header()
		n.number()
		if r%2 == 0 {
			n.ask(h.seq, r+1)
		}
	}
	for _, step := range []struct {
		what string
		h    notifyHeader
		lost int
		want []int
	}{
		{"the first three", notifyHeader{last: 65532, bits: 0b11}, 0, []int{1, 3}},
		{"an older one", notifyHeader{last: 65531, bits: 0}, 0, nil},
		{"a gap", notifyHeader{last: 0, bits: 0b01}, 2, []int{-5, 7}},
		{"of messages that were never sent", notifyHeader{last: 100}, 0, nil},
		{"beyond the bits", notifyHeader{last: 13, bits: 0xff}, 0, []int{-9, -11, 13, 15, 17, 19}},
	} {
		lost, got := settle(&n, step.h)
		if lost != step.lost || len(got) != len(step.want) {
			t.Fatalf("%s: %d lost, receipts %v; want %d, %v", step.what, lost, got, step.lost, step.want)
		}
		for i := range got {
			if got[i] != step.want[i] {
				t.Fatalf("%s: receipts %v, want %v", step.what, got, step.want)
			}
		}
	}
}

// TestNotifyReceiptsBounded: a peer that never answers cannot make the receipts grow without bound, and each is
// answered once.
func TestNotifyReceiptsBounded(t *testing.T) {
	n := newNotifier(1)
	answered := codec.Receipt(0)
	const all = 5 * maxNotifyReceipts
	for r := codec.Receipt(1); r <= all; r++ {
		h := n.header()
		n.number()
		lost := n.ask(h.seq, r)
		if lost == 0 {
			continue
		}
		if answered++; lost != answered {
			t.Fatalf("receipt %d made room, want %d", lost, answered)
		}
	}
	if cap(n.receipts) > 4*maxNotifyReceipts {
		t.Errorf("room for %d receipts", cap(n.receipts))
	}
	for r, ok := n.unanswered(); ok; r, ok = n.unanswered() {
		if answered++; r != answered {
			t.Fatalf("receipt %d given, want %d", r, answered)
		}
	}
	if answered != all {
		t.Errorf("%d of %d receipts answered", answered, all)
	}
}

func TestLossQuality(t *testing.T) {
	var q lossQuality
	for i := range 1000 {
		if q.result(i%22 != 0) {
			t.Fatalf("too poor at message %d with 3 lost of 64", i)
		}
	}
	q = lossQuality{}
	poorAt := 0
	for i := 1; poorAt == 0 && i < 1000; i++ {
		if q.result(i > 4 && i%16 != 0) {
			poorAt = i
		}
	}
	if want := 4 + qualityRuns - 1; poorAt != want {
		t.Errorf("4 lost of 64 were too poor at message %d, want %d", poorAt, want)
	}
}

func TestSendQuality(t *testing.T) {
	var q sendQuality
	for i := range 300 {
		if q.delivered(maxMeanSends) {
			t.Fatalf("too poor at message %d with a mean of %d", i, maxMeanSends)
		}
	}
	poorAt := 0
	for i := 1; poorAt == 0 && i < 1000; i++ {
		if q.delivered(maxMeanSends + 1) {
			poorAt = i
		}
	}
	if poorAt != qualityRuns {
		t.Errorf("too poor after %d bad messages, want %d", poorAt, qualityRuns)
	}
	if q.delivered(0); q.bad == 0 {
		t.Error("one good message redeemed a poor connection")
	}
}
