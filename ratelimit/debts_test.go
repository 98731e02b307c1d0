package ratelimit

import (
	"net/netip"
	"testing"
	"time"
)

var (
	victim = accountOf(netip.MustParseAddr("192.0.2.1"))
	three  = Peers{Nodes: 3, Every: time.Second}
)

// one lets Debts find one bucket.
func one(b *Bucket, r Rate) func(Account) (*Bucket, Rate, bool) {
	return func(a Account) (*Bucket, Rate, bool) { return b, r, a == victim }
}

// TestDebtsLeaveANodeItsPart lets both other nodes lie without end. A source that stays within a third of the limit
// loses nothing: neither at the burst nor at the rate.
func TestDebtsLeaveANodeItsPart(t *testing.T) {
	rate := Rate{PerSecond: 12, Burst: 24}
	for _, rest := range []time.Duration{0, 10 * time.Second, time.Hour} {
		var d Debts
		var b Bucket
		now := 1000 * time.Hour
		lie := func() {
			for range 2 {
				d.Add(Spending{victim, time.Hour}, rate, three)
			}
			d.Pay(now, three, one(&b, rate))
		}
		for end := now + rest; now < end; now += time.Second {
			lie()
		}
		for range 8 {
			if !b.Take(now, rate, 1) {
				t.Fatalf("after %v: a third of the burst does not pass", rest)
			}
		}
		for i := range 400 {
			if now += 250 * time.Millisecond; i%4 == 0 {
				lie()
			}
			if !b.Take(now, rate, 1) {
				t.Fatalf("after %v: event %d at a third of the rate does not pass", rest, i)
			}
		}
	}
}

// TestDebtsEnd lets other nodes lie for an hour. Soon afterwards the source has its whole burst again, and nothing is
// kept of it.
func TestDebtsEnd(t *testing.T) {
	rate := Rate{PerSecond: 10, Burst: 40} // 4 s for a burst
	var d Debts
	var b Bucket
	now := time.Hour
	for end := now + time.Hour; now < end; now += time.Second {
		d.Add(Spending{victim, time.Hour}, rate, three)
		d.Pay(now, three, one(&b, rate))
	}
	for range 25 { // two debts of 6 s, paid at two thirds, and the burst itself
		d.Pay(now, three, one(&b, rate))
		now += time.Second
	}
	if d.Pay(now, three, one(&b, rate)); d.Len() != 0 || !b.Take(now, rate, rate.Burst) {
		t.Errorf("%d debts are left, and the bucket is %v behind", d.Len(), time.Duration(b)-now)
	}
}

// TestDebtsArePaidInFull charges exactly what was used elsewhere: in all, a source gets its rate and no more.
func TestDebtsArePaidInFull(t *testing.T) {
	rate := Rate{PerSecond: 100, Burst: 100}
	var d Debts
	var b Bucket
	now, passed := time.Duration(0), 0
	const elsewhere, seconds = 30, 100 // a second, in all
	for range seconds * 100 {
		if now%time.Second == 0 {
			d.Add(Spending{victim, elsewhere * time.Second / 100}, rate, three)
			d.Pay(now, three, one(&b, rate))
		}
		for b.Take(now, rate, 1) {
			passed++
		}
		now += 10 * time.Millisecond
	}
	if want := rate.Burst + seconds*(rate.PerSecond-elsewhere); passed < want-2 || passed > want+elsewhere {
		t.Errorf("%d have passed, want %d", passed, want)
	}
}

// TestDebtsDoNotOverflow believes no more than an hour of each node, also of a burst that takes years.
func TestDebtsDoNotOverflow(t *testing.T) {
	var d Debts
	var b Bucket
	rate, many := Rate{PerSecond: 1, Burst: 1 << 31}, Peers{Nodes: 257, Every: time.Second}
	for range 10_000 {
		d.Add(Spending{victim, 1 << 62}, rate, many)
	}
	d.Pay(0, many, one(&b, rate))
	if got := time.Duration(b); got < 256*time.Hour || got > 257*time.Hour {
		t.Errorf("%v are charged, want an hour of each node", got)
	}
}

// TestDebtsAreBounded refuses accounts without room, and forgets those whose limit is gone.
func TestDebtsAreBounded(t *testing.T) {
	var d Debts
	rate := Rate{PerSecond: 10, Burst: 40}
	for i := range maxDebts + 7 {
		d.Add(Spending{accountOf(forged(i)), time.Second}, rate, three)
	}
	if d.Len() != maxDebts {
		t.Errorf("%d debts, want %d", d.Len(), maxDebts)
	}
	if d.Pay(0, three, one(nil, rate)); d.Len() != 0 {
		t.Errorf("%d debts of no limit", d.Len())
	}
	d.Add(Spending{victim, time.Second}, rate, three)
	if d.Pay(time.Minute, Peers{Nodes: 1, Every: time.Second}, one(new(Bucket), rate)); d.Len() != 1 {
		t.Error("a debt is forgotten at once")
	}
	if d.Pay(2*time.Minute, Peers{Nodes: 1, Every: time.Second}, one(new(Bucket), rate)); d.Len() != 0 {
		t.Error("a debt stays after its nodes have gone")
	}
}

// TestDebtsWait charges a source that comes to a node after it has used its budget at others. Meanwhile the debt gets
// smaller, as the source's budget at the other node grows.
func TestDebtsWait(t *testing.T) {
	rate := Rate{PerSecond: 10, Burst: 40}
	for wait, want := range map[time.Duration]int{0: 40 - 20, time.Second: 40 - 10, 3 * time.Second: 40} {
		var d Debts
		now := time.Hour
		d.Pay(now, three, one(nil, rate))
		d.Add(Spending{victim, 2 * time.Second}, rate, three)
		for end := now + wait; now < end; {
			now += time.Second / 2
			d.Pay(now, three, one(nil, rate))
		}
		var b Bucket
		d.Pay(now, three, one(&b, rate))
		passed := 0
		for b.Take(now, rate, 1) {
			passed++
		}
		if passed != want {
			t.Errorf("after %v, %d pass, want %d", wait, passed, want)
		}
	}
}
