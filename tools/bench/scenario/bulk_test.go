package scenario

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/tools/bench/process"
)

func TestInvalidBulk(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{Rounds: 1, Size: 14_000}, "0 messages"},
		{Options{Rounds: 1, Messages: 10, Size: maxMessageSize + 1}, "of 500001 bytes"},
		{Options{Rounds: 1, Messages: maxMessages, Size: maxMessageSize}, "100000 messages"},
		{Options{Rounds: 1, Messages: 10, Size: 14_000, Rate: -1}, "-1 messages a second"},
		{Options{Messages: 10, Size: 14_000}, "0 rounds"},
		{Options{Rounds: 1, Messages: 10, Size: 14_000, Loss: 0.6}, "that loses 0.6"},
	} {
		if _, err := Bulk(&c.o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.says)
		}
	}
}

// TestBulkTransfer transfers messages directly over a path with a delay and losses.
func TestBulkTransfer(t *testing.T) {
	const messages, size = 20, 14_000
	o := &Options{
		Sessions: 1, Size: minSize, Rounds: 1, Window: time.Second, Messages: messages, Path: 4 * time.Millisecond,
		Loss: 0.05,
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	o.Size, o.Rate = size, 1000
	b := &bulkBench{o}
	r, err := b.transfer(kind{"direct", startDirect, alwaysInstalled}, 1)
	if err != nil {
		t.Fatal(err)
	}
	const parts = messages * (size/1464 + 1)
	if r.took < o.Path+(messages-1)*time.Millisecond || r.datagrams-r.again < parts || r.again == 0 {
		t.Errorf("%v, %d datagrams, %d of them again; want at least %d once, and some again", r.took, r.datagrams, r.again,
			parts)
	}
}

// TestBulkPathLosesTheSame loses the same datagrams of each sequence with the same seed.
func TestBulkPathLosesTheSame(t *testing.T) {
	lost := func(seed uint64) (list []int) {
		p := &bulkPath{loss: 0.1, rng: rand.New(rand.NewPCG(seed, 0)), seen: make(map[[3]byte]bool)}
		if p.loses(false, nil) {
			t.Error("lost before the begin")
		}
		p.begin()
		for i := range 1000 {
			if p.loses(i%2 == 0, []byte{0x84, 0, 0, 0, 0x60, 0, 8, byte(i), 0, 0, 0}) {
				list = append(list, i)
			}
		}
		if datagrams, again := p.counts(); datagrams != 500 || again != 500-128 {
			t.Errorf("%d datagrams, %d of them again, want 500 and %d", datagrams, again, 500-128)
		}
		return list
	}
	first, again, other := lost(1), lost(1), lost(2)
	if len(first) < 60 || len(first) > 140 {
		t.Errorf("%d of 1000 lost, want about 100", len(first))
	}
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Error("the losses do not follow the seed")
	}
}

// TestBulkResult compares with the direct transfer, and counts failures.
func TestBulkResult(t *testing.T) {
	b := &bulkBench{&Options{Messages: 10, Size: 1000, Rounds: 3}}
	subjects := []bulkSubject{{name: "direct"}, {name: "tidegate"}, {name: "go-raknet"}}
	took := func(seconds ...int) (m bulkMeasured) {
		for _, s := range seconds {
			m.rounds = append(m.rounds, bulkRound{took: time.Duration(s) * time.Second, datagrams: 20, again: 5})
		}
		return m
	}
	r := b.conclude(subjects, []bulkMeasured{took(4, 2, 9), took(3, 1, 2), {failed: 3}}, []string{"quic: none"})
	want := []BulkFigures{
		{Name: "direct", Seconds: 4, Least: 2, Most: 9, PerSecond: 2500, Datagrams: 20, Again: 5},
		{Name: "tidegate", Seconds: 2, Least: 1, Most: 3, Ratio: 0.5, PerSecond: 5000, Datagrams: 20, Again: 5},
		{Name: "go-raknet", Failed: 3},
	}
	for i, f := range r.Subjects {
		if f != want[i] {
			t.Errorf("%+v, want %+v", f, want[i])
		}
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil || r.Machine != process.Machine() {
		t.Error(err, r.Machine)
	}
	for _, part := range []string{"at once", "tidegate", "0.50", "not measured: quic: none"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in %s", part, text.String())
		}
	}
}
