package riptide

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
)

func TestNotifyReceives(t *testing.T) {
	const ms = time.Millisecond
	n, now := newNotifier(1), start
	for _, step := range []struct {
		what  string
		after time.Duration
		s     seq
		want  bool
		bits  uint8
	}{
		{"the first claims number 0 too, as the library does", 0, 1, true, 0x01},
		{"again", 0, 1, false, 0x01},
		{"a gap", 20 * ms, 3, true, 0x06},
		{"late", 0, 2, false, 0x06},
		{"more than were sent meanwhile", 0, 6, false, 0x06},
		{"the peer's own, after a forged one", 10 * ms, 4, true, 0x0d},
		{"as many as were sent meanwhile", 60 * ms, 11, true, 0xc0},
		{"a jump", 10 * ms, 20, false, 0xc0},
		{"the second", 30 * ms, 22, false, 0xc0},
		{"the third", 30 * ms, 23, false, 0xc0},
		{"the fourth confirms it", 30 * ms, 25, true, 0x00},
	} {
		now = now.Add(step.after)
		if got := n.receive(now, &notifyHeader{seq: step.s}) == nil; got != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
		if h := n.header(); h.bits != step.bits || h.last != n.last {
			t.Errorf("%s: last %d, bits %02x, want %d, %02x", step.what, h.last, h.bits, n.last, step.bits)
		}
		n.number(now, 0)
	}
}

// TestNotifyAfterOutage: no message of a slow sender is refused after an outage that its session survives. Where a
// sender has paused for longer, a jump needs evidence.
func TestNotifyAfterOutage(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		interval, outage time.Duration
		lost             seq
		want             bool
	}{
		{second / 5, second * 6 / 5, 6, true},
		{second / 2, 2 * second, 4, true},
		{second, 9 * second / 2, 5, true},
		{4 * second, 5 * second, 2, true},
		{second / 5, 16 * second, 2, false},
	} {
		n, now, s := newNotifier(1), start, seq(1)
		for ; s < 50; s++ {
			now = now.Add(test.interval)
			if err := n.receive(now, &notifyHeader{seq: s}); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(test.outage + test.interval)
		if got := n.receive(now, &notifyHeader{seq: s + test.lost}) == nil; got != test.want {
			t.Errorf("a message each %v, the first after an outage of %v counts: %v", test.interval, test.outage, got)
		}
	}
}

// take gives n the peer's message s, as its doorman would admit it. It reports whether it is newer than all before.
func take(n *notifier, s seq) bool {
	gap := s.minus(n.last)
	if gap > 0 {
		n.count(s, gap)
	}
	return gap > 0
}

// TestNotifyFollowsTheLate: when a forger has led n far ahead, the peer's own numbers count again.
func TestNotifyFollowsTheLate(t *testing.T) {
	for _, ahead := range []seq{20, 200, 300, 30000} {
		n, now := newNotifier(1), start
		n.count(ahead, int(ahead))
		lost := 0
		for s := seq(1); n.receive(now, &notifyHeader{seq: s}) != nil; s++ {
			now = now.Add(25 * time.Millisecond)
			lost++
		}
		if lost > 4 {
			t.Errorf("%d ahead: %d messages of the peer are lost", ahead, lost)
		}
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
					received[s] = take(&n, s)
				}
				s++
			}
			for range notifyMemory/4/notifyReach + 3 {
				h := n.header()
				n.number(start, 0)
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
			take(&n, s)
		}
	}
	take(&n, 30000)
	for range notifyMemory {
		h := n.header()
		n.number(start, 0)
		peer.acknowledged(&h)
	}
	if len(peer.delivered) != 1 || peer.acked != 30000 {
		t.Errorf("reported %d, up to %d; want only the newest", peer.delivered, peer.acked)
	}
	for s := seq(30001); s <= 30600; s++ {
		take(&n, s)
	}
	for range notifyMemory {
		h := n.header()
		n.number(start, 0)
		peer.acknowledged(&h)
	}
	if got := len(peer.delivered) - 1; got < notifyMemory-2*notifyReach || peer.acked != 30600 {
		t.Errorf("reported %d of 600, up to %d; want about %d", got, peer.acked, notifyMemory)
	}
	n.count(30700, 100) // unreported, and then half of all numbers are skipped
	farthest := seq(30700) + 1<<15 - 1
	n.count(farthest, 1<<15-1)
	if h := n.header(); h.last != farthest || h.bits != 0 {
		t.Errorf("after a jump to %d the header reports %d, bits %02x", farthest, h.last, h.bits)
	}
}

// settle gives n an acknowledgement and returns the receipts that it settles, lost ones negative.
func settle(n *notifier, h notifyHeader) (lost int, receipts []int) {
	news, lost := n.acknowledged(&h)
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
		n.number(start, 0)
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
		n.number(start, 0)
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
