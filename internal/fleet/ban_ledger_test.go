package fleet

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/ratelimit"
)

var terms = ratelimit.Terms{
	First: time.Minute, Longest: time.Hour, Memory: time.Hour,
}

// store is a bucket in memory. Its order is that of the revisions, as in NATS.
type store struct {
	records  map[netip.Prefix]record
	revision map[netip.Prefix]uint64
	last     uint64
}

func newStore() *store {
	return &store{records: make(map[netip.Prefix]record), revision: make(map[netip.Prefix]uint64)}
}

// node is a Tidegate whose connection to the bucket is a method call.
type node struct {
	*banLedger
	bans *ratelimit.Bans
}

func newNode(name string) *node {
	return &node{newBanLedger(name), ratelimit.NewBans(terms)}
}

// read takes all records of the bucket.
func (n *node) read(now time.Time, s *store) {
	n.survey(now, n.bans)
	n.begin()
	for p, r := range s.records {
		n.fit(&r)
		n.look(now, p, n.bans)
		if !n.take(now, &r, s.revision[p]) {
			continue
		}
		if r.removed {
			n.bans.Remove(p)
		} else {
			n.bans.Add(r.ban)
		}
	}
	n.end(now)
}

// write sends the node's changes. The bucket takes a change only if the node knows the newest record.
func (n *node) write(t *testing.T, s *store) {
	t.Helper()
	for p := range n.open {
		e := n.entries[p]
		if e.revision != s.revision[p] {
			t.Fatalf("%s writes %v at revision %d, the bucket has %d", n.node, p, e.revision, s.revision[p])
		}
		s.last++
		s.records[p], s.revision[p] = *e.record, s.last
		n.written(&write[*record]{record: e.record, revision: s.last})
	}
}

// meet lets the nodes merge in a given order, twice, since the first ones must hear of the last one.
func meet(t *testing.T, now time.Time, s *store, nodes ...*node) {
	t.Helper()
	for range 2 {
		for _, n := range nodes {
			n.read(now, s)
			n.write(t, s)
		}
	}
	for _, n := range nodes {
		if len(n.open) > 0 {
			t.Errorf("%s: %d changes are left over", n.node, len(n.open))
		}
	}
}

func (n *node) ban(b ratelimit.Ban, at time.Time) {
	b.Since = at
	n.bans.Add(b)
	n.survey(at, n.bans)
}

func (n *node) unban(p netip.Prefix, at time.Time) {
	n.bans.Remove(p)
	n.survey(at, n.bans)
}

// TestConflicts plays changes of one network at two nodes that cannot reach the bucket. Both orders of return must have
// the same result.
func TestConflicts(t *testing.T) {
	const network = "192.0.2.7/32"
	p := netip.MustParsePrefix(network)
	first := func(reason string, until time.Duration) ratelimit.Ban {
		b := banOf(network)
		b.Reason, b.Until = reason, now.Add(until)
		return b
	}
	automatic := first("flood", 10*time.Hour)
	automatic.Author, automatic.Times = ratelimit.Automatic, 1
	at := func(minute int) time.Time { return now.Add(time.Duration(minute) * time.Minute) }
	for _, c := range []struct {
		name  string
		apart func(a, b *node) // both have a ban of now, with the reason "old"
		want  string           // the reason of the ban in force; empty: none
	}{
		{"the later ban", func(a, b *node) {
			a.ban(first("a", 2*time.Hour), at(1))
			b.ban(first("b", time.Hour), at(2))
		}, "b"},
		{"a later removal", func(a, b *node) {
			a.ban(first("a", 2*time.Hour), at(1))
			b.unban(p, at(2))
		}, ""},
		{"a ban after a removal", func(a, b *node) {
			a.unban(p, at(1))
			b.ban(first("b", time.Hour), at(2))
		}, "b"},
		{"two removals", func(a, b *node) {
			a.unban(p, at(1))
			b.unban(p, at(2))
		}, ""},
		{"a removal and no change", func(a, _ *node) {
			a.unban(p, at(1))
		}, ""},
		{"a ban and a removal at once", func(a, b *node) {
			a.ban(first("a", time.Hour), at(1))
			b.unban(p, at(1))
		}, "a"},
		{"two bans at once", func(a, b *node) {
			a.ban(first("a", 2*time.Hour), at(1))
			b.ban(first("b", time.Hour), at(1))
		}, "a"},
		{"an operator's ban and a later automatic one", func(a, b *node) {
			a.ban(first("a", time.Hour), at(1))
			b.ban(automatic, at(2))
		}, "a"},
	} {
		for _, turned := range []bool{false, true} {
			s, a, b := newStore(), newNode("a"), newNode("b")
			a.ban(first("old", time.Hour), now)
			meet(t, now, s, a, b)
			c.apart(a, b)
			if turned {
				meet(t, at(3), s, b, a)
			} else {
				meet(t, at(3), s, a, b)
			}
			for _, n := range []*node{a, b} {
				got := ""
				if ban := n.bans.Find(at(3), p.Addr()); ban != nil {
					got = ban.Reason
				}
				if got != c.want {
					t.Errorf("%s, turned %v: node %s has %q, want %q", c.name, turned, n.node, got, c.want)
				}
			}
		}
	}
}

// TestLateClock changes a ban at a node whose clock is an hour late. The change follows the record that the node knows,
// so it holds.
func TestLateClock(t *testing.T) {
	s, a, b := newStore(), newNode("a"), newNode("b")
	a.ban(banOf("192.0.2.7/32"), now)
	meet(t, now, s, a, b)
	b.unban(netip.MustParsePrefix("192.0.2.7/32"), now.Add(-time.Hour))
	a.survey(now, a.bans)
	meet(t, now, s, a, b)
	if a.bans.Len() != 0 || b.bans.Len() != 0 {
		t.Errorf("the removed ban is back: %v, %v", a.bans.All(), b.bans.All())
	}
}

// TestRestart starts a node whose file still has a ban that another node has removed meanwhile, and one that the bucket
// does not have.
func TestRestart(t *testing.T) {
	s, a := newStore(), newNode("a")
	a.ban(banOf("192.0.2.7/32"), now)
	meet(t, now, s, a)
	a.unban(netip.MustParsePrefix("192.0.2.7/32"), now.Add(time.Minute))
	meet(t, now.Add(time.Minute), s, a)
	b := newNode("b")
	b.bans.Add(banOf("192.0.2.7/32"))
	b.bans.Add(banOf("192.0.2.8/32"))
	meet(t, now.Add(2*time.Minute), s, b, a)
	for _, n := range []*node{a, b} {
		if all := n.bans.All(); len(all) != 1 || all[0].Prefix != netip.MustParsePrefix("192.0.2.8/32") {
			t.Errorf("node %s has %v", n.node, all)
		}
	}
}

// TestLostBucket writes all bans again into a bucket that has lost its records.
func TestLostBucket(t *testing.T) {
	s, a, b := newStore(), newNode("a"), newNode("b")
	a.ban(banOf("192.0.2.7/32"), now)
	b.ban(banOf("192.0.2.8/32"), now)
	meet(t, now, s, a, b)
	s = newStore()
	meet(t, now, s, a, b)
	if len(s.records) != 2 || a.bans.Len() != 2 || b.bans.Len() != 2 {
		t.Errorf("the bucket has %d records, the nodes have %d and %d bans", len(s.records), a.bans.Len(), b.bans.Len())
	}
}

// TestDeletedRecord writes a record again that another program has deleted, unless it has ended.
func TestDeletedRecord(t *testing.T) {
	s, a := newStore(), newNode("a")
	a.ban(banOf("192.0.2.7/32"), now)
	meet(t, now, s, a)
	p := netip.MustParsePrefix("192.0.2.7/32")
	a.gone(now.Add(2*time.Hour), p, 7)
	if len(a.open) != 0 {
		t.Error("an ended ban is written again")
	}
	a.gone(now, p, 8)
	if len(a.open) != 1 {
		t.Error("a ban in force stays deleted")
	}
}

// TestEndedBans forgets bans that have ended, without a removal.
func TestEndedBans(t *testing.T) {
	s, a := newStore(), newNode("a")
	a.ban(banOf("192.0.2.7/32"), now)
	meet(t, now, s, a)
	a.survey(now.Add(2*time.Hour), a.bans)
	if len(a.entries) != 0 || len(a.open) != 0 {
		t.Errorf("%d entries and %d changes are left", len(a.entries), len(a.open))
	}
}

// TestBoundedLedger takes no more networks than there is room for. A ban beyond it holds at its node.
func TestBoundedLedger(t *testing.T) {
	defer func(n int) { maxRecords = n }(maxRecords)
	maxRecords = 2
	a := newNode("a")
	a.ban(banOf("192.0.2.1/32"), now)
	a.ban(banOf("192.0.2.2/32"), now)
	if a.take(now, &record{ban: banOf("192.0.2.3/32"), changed: now}, 1) {
		t.Error("a record of the bucket goes beyond the bound")
	}
	a.ban(banOf("192.0.2.4/32"), now)
	if len(a.entries) != 2 || a.beyond != 1 || a.bans.Find(now, netip.MustParseAddr("192.0.2.4")) == nil {
		t.Errorf("%d entries, %d beyond the bound", len(a.entries), a.beyond)
	}
}

// TestUnwritableBan does not share a ban whose end has no form in JSON. It holds at its node.
func TestUnwritableBan(t *testing.T) {
	a, ban := newNode("a"), banOf("192.0.2.1/32")
	ban.Until = now.AddDate(9000, 0, 0)
	a.ban(ban, now)
	if len(a.open) != 0 || a.beyond != 1 || a.bans.Len() != 1 {
		t.Errorf("%d changes, %d not shared", len(a.open), a.beyond)
	}
}

// BenchmarkSurvey compares the bans of a node with its entries, when one of 20,000 has changed.
func BenchmarkSurvey(b *testing.B) {
	a := newNode("a")
	for i := range 20_000 {
		ban := banOf("192.0.2.7/32")
		ban.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		a.bans.Add(ban)
	}
	for b.Loop() {
		a.survey(now, a.bans)
	}
}

// TestTextsAreBounded writes bans with long texts, more than a node keeps. All hold, some without their texts, and no
// node writes anything back. Texts that are gone leave room.
func TestTextsAreBounded(t *testing.T) {
	was := maxTexts
	maxTexts = 10_000
	defer func() { maxTexts = was }()
	now, s, n := time.Now(), newStore(), newNode("one")
	for i := range 100 {
		ban := lasting(address(i))
		ban.Reason, ban.Author = strings.Repeat("r", 1000), strings.Repeat("a", 100)
		if i%2 == 0 {
			ban.Author = ratelimit.Automatic
		}
		s.last++
		s.records[ban.Prefix], s.revision[ban.Prefix] = record{ban: ban, changed: now, node: "rogue"}, s.last
	}
	for range 3 { // once more, as after a lost connection
		n.read(now, s)
		sum, automatic := 0, 0
		for ban := range n.bans.Active(now) {
			if ban.Author == ratelimit.Automatic {
				automatic++
			}
			sum += len(ban.Reason)
		}
		if n.bans.Len() != 100 || automatic != 50 || sum > maxTexts || sum < maxTexts/2 || n.texts > maxTexts {
			t.Errorf("%d bans, %d of them automatic, with %d bytes of reasons, %d in all", n.bans.Len(), automatic, sum, n.texts)
		}
		if len(n.open) != 0 {
			t.Errorf("%d records are written back", len(n.open))
		}
	}
	for p := range s.records {
		n.bans.Remove(p)
	}
	n.survey(now, n.bans)
	if n.texts > 100*len("one") {
		t.Errorf("%d bytes of texts after the removal of all", n.texts)
	}
}

// TestLagIsBounded takes a record of the year 1.
func TestLagIsBounded(t *testing.T) {
	now := time.Now()
	for changed, want := range map[time.Time]time.Duration{
		{}: maxLag, now.Add(-time.Second): time.Second, now.Add(time.Hour): 0,
	} {
		if got := lagOf(changed, now); got != want {
			t.Errorf("lag of a change at %v: %v, want %v", changed, got, want)
		}
	}
}
