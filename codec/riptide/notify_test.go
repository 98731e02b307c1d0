package riptide

import (
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
		if h := n.header(); h.bits != step.bits {
			t.Errorf("%s: bits %02x, want %02x", step.what, h.bits, step.bits)
		}
	}
}

// settle gives n an acknowledgement and lists the receipts it decides, lost ones negative.
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

// A peer that never answers cannot make the receipts grow without bound, and each is answered once.
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
	for r, ok := n.give(); ok; r, ok = n.give() {
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
