package ratelimit

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"tidegate/internal/testkit/allocs"
)

var terms = Terms{
	First: 10 * time.Minute, Longest: time.Hour, Memory: 24 * time.Hour,
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestBansFind(t *testing.T) {
	b := NewBans(terms)
	b.Add(Ban{Prefix: prefix("192.0.2.99/24"), Reason: "wide", Author: "ann"})
	b.Add(Ban{Prefix: prefix("192.0.2.7/32"), Reason: "narrow", Author: "ann", Until: start.Add(time.Hour)})
	b.Add(Ban{Prefix: prefix("::ffff:198.51.100.0/120"), Reason: "mapped", Author: "ann"})
	b.Add(Ban{Prefix: prefix("2001:db8::/32"), Reason: "six", Author: "ann", Until: start.Add(time.Minute)})
	for _, c := range []struct {
		after time.Duration
		from  string
		want  string
	}{
		{0, "192.0.2.1", "wide"},
		{0, "192.0.2.7", "narrow"},
		{time.Hour, "192.0.2.7", "wide"},
		{0, "::ffff:192.0.2.7", "narrow"},
		{0, "198.51.100.255", "mapped"},
		{0, "2001:db8::1%eth0", "six"},
		{time.Minute, "2001:db8::1", ""},
		{0, "203.0.113.1", ""},
	} {
		got := ""
		if ban := b.Find(start.Add(c.after), addr(c.from)); ban != nil {
			got = ban.Reason
		}
		if got != c.want {
			t.Errorf("%s after %v: %q, want %q", c.from, c.after, got, c.want)
		}
	}
	if !b.Remove(prefix("192.0.2.0/24")) || b.Remove(prefix("192.0.2.0/24")) || b.Find(start, addr("192.0.2.1")) != nil {
		t.Error("a ban cannot be lifted, or twice")
	}
}

// TestAutomaticBansGrow checks that each ban of a network in a row lasts twice as long, up to the longest. The series
// ends when the history is forgotten.
func TestAutomaticBansGrow(t *testing.T) {
	b := NewBans(terms)
	now := start
	for i, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		ban := b.Offend(now, addr("2001:db8::1"), "flood")
		if ban.Until.Sub(now) != want || ban.Times != i+1 || ban.Prefix != prefix("2001:db8::/64") {
			t.Fatalf("%d: %v for %v, %d times; want %v", i, ban.Prefix, ban.Until.Sub(now), ban.Times, want)
		}
		if again := b.Offend(now.Add(time.Minute), addr("2001:db8::2"), "flood"); !again.equal(ban) {
			t.Fatalf("%d: the ban in force became %+v", i, again)
		}
		now = ban.Until.Add(terms.Memory - time.Second)
	}
	now = now.Add(time.Second)
	if ban := b.Offend(now, addr("2001:db8::1"), "flood"); ban.Times != 1 {
		t.Errorf("it is remembered %d times after its memory", ban.Times)
	}
}

func TestAutomaticBansAreBounded(t *testing.T) {
	b := NewBans(terms)
	b.Add(Ban{Prefix: prefix("203.0.113.0/24"), Author: "ann", Until: start.Add(time.Second)})
	for i := range maxAutomatic + maxAutomatic/8 {
		from := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		b.Offend(start.Add(time.Duration(i)*time.Millisecond), from, "x")
	}
	all := b.All()
	if len(all) != maxAutomatic+1 || b.automatic.Len() != maxAutomatic || len(b.automatic.places) != maxAutomatic {
		t.Errorf("%d bans are kept, want %d", len(all), maxAutomatic+1)
	}
	if b.Find(start, addr("10.0.0.1")) != nil || b.Find(start, addr("203.0.113.1")) == nil {
		t.Error("want the oldest automatic ban gone, and the operator's kept")
	}
}

// TestSync checks that two sides change one store, and that each learns the other's changes.
func TestSync(t *testing.T) {
	b := NewBans(terms)
	file := []Ban{
		{Prefix: prefix("192.0.2.0/24"), Author: "ann"},
		{Prefix: prefix("198.51.100.1/32"), Author: "ann", Until: start},
	}
	writes := 0
	sync := func() error {
		return b.Sync(start, func() ([]Ban, error) { return slices.Clone(file), nil }, func(all []Ban) error {
			file = slices.Clone(all)
			writes++
			return nil
		})
	}
	told := b.Subscribe()
	b.Offend(start, addr("203.0.113.5"), "flood")
	<-told
	if err := sync(); err != nil || writes != 1 || len(file) != 2 || len(b.All()) != 2 {
		t.Fatalf("%v, %d writes; the file has %+v, we %+v", err, writes, file, b.All())
	}
	<-told // woken by the file's contents
	if err := sync(); err != nil || writes != 1 || len(told) != 0 {
		t.Fatalf("%v, %d writes; a Sync without news told of some: %v", err, writes, len(told))
	}
	file = file[1:] // an operator lifts a ban
	b.Remove(prefix("203.0.113.5/32"))
	<-told
	if err := sync(); err != nil || writes != 2 || len(file) != 0 || len(b.All()) != 0 {
		t.Fatalf("%v, %d writes; the file has %+v, we %+v", err, writes, file, b.All())
	}
}

// TestChangesDuringSync checks that bans can be changed while Sync reads and writes its store, which may take seconds,
// and that those changes are in force afterwards and reach the store with the next Sync.
func TestChangesDuringSync(t *testing.T) {
	b := NewBans(terms)
	file := []Ban{
		{Prefix: prefix("192.0.2.0/24"), Author: "ann"},
		{Prefix: prefix("198.51.100.1/32"), Author: Automatic, Until: start.Add(time.Minute)},
		{Prefix: prefix("198.51.100.2/32"), Author: Automatic},
	}
	if err := b.Sync(start, func() ([]Ban, error) { return file, nil }, nil); err != nil {
		t.Fatal(err)
	}
	load := func() ([]Ban, error) {
		b.Offend(start, addr("203.0.113.5"), "flood")
		b.Add(Ban{Prefix: prefix("198.51.100.1/32"), Author: "ann"})
		return slices.Clone(file), nil
	}
	store := func(all []Ban) error {
		b.Remove(prefix("198.51.100.2/32"))
		b.Add(Ban{Prefix: prefix("203.0.113.6/32"), Author: "ann"})
		file = slices.Clone(all)
		return nil
	}
	b.Add(Ban{Prefix: prefix("203.0.113.7/32"), Author: "ann"})
	if err := b.Sync(start, load, store); err != nil {
		t.Fatal(err)
	}
	check := func(when string, bans []Ban) {
		t.Helper()
		var got []string
		for _, ban := range bans {
			got = append(got, ban.Prefix.String()+" "+ban.Author)
		}
		want := []string{
			"192.0.2.0/24 ann", "198.51.100.1/32 ann", "203.0.113.5/32 tidegate", "203.0.113.6/32 ann", "203.0.113.7/32 ann",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	check("after one Sync", b.All())
	if b.automatic.Len() != 1 {
		t.Errorf("%d automatic bans are counted, want 1", b.automatic.Len())
	}
	if err := b.Sync(start, func() ([]Ban, error) { return file, nil }, store); err != nil {
		t.Fatal(err)
	}
	check("the store after another Sync", file)
}

// BenchmarkOffendDuringSync measures the longest time that a loop may wait to impose a ban while a Sync merges as many
// bans as a file may have.
func BenchmarkOffendDuringSync(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			stored := make([]Ban, n)
			for i := range stored {
				a := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
				stored[i] = Ban{Prefix: netip.PrefixFrom(a, 32), Author: "ann"}
			}
			bans := NewBans(terms)
			load := func() ([]Ban, error) { return stored, nil }
			store := func([]Ban) error { return nil }
			if err := bans.Sync(start, load, store); err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range b.N {
					stored[0].Times++ // so that each Sync has a new table to build
					_ = bans.Sync(start, load, store)
				}
			}()
			longest, i := time.Duration(0), 0
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-done:
					b.ReportMetric(longest.Seconds()*1e3, "longest-ms")
					return
				case <-pace.C:
				}
				from := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
				i++
				before := time.Now()
				bans.Offend(start, from, "flood")
				longest = max(longest, time.Since(before))
			}
		})
	}
}

// TestSyncThatFails checks that a failed Sync keeps the changes for the next one.
func TestSyncThatFails(t *testing.T) {
	b := NewBans(terms)
	b.Offend(start, addr("203.0.113.5"), "flood")
	broken := errors.New("disk full")
	load := func() ([]Ban, error) { return nil, nil }
	if err := b.Sync(start, load, func([]Ban) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := b.Sync(start, func() ([]Ban, error) { return nil, broken }, nil); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if b.Find(start, addr("203.0.113.5")) == nil {
		t.Error("the ban is not in force")
	}
	var file []Ban
	if err := b.Sync(start, load, func(all []Ban) error { file = all; return nil }); err != nil || len(file) != 1 {
		t.Errorf("%v; the file has %+v", err, file)
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	b := NewBans(terms)
	b.Add(Ban{Prefix: prefix("192.0.2.0/24")})
	b.Add(Ban{Prefix: prefix("2001:db8::/32")})
	for _, from := range []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "203.0.113.1"} {
		a := addr(from)
		if n := allocs.PerRun(1000, func() { b.Find(start, a) }); n != 0 {
			t.Errorf("%s: %v allocations", from, n)
		}
	}
}

// TestChangesOfALargeTableAreSmall bans one address after another beside many bans. Each change takes memory, and so
// time, that does not grow with their number. A loop waits for it.
func TestChangesOfALargeTableAreSmall(t *testing.T) {
	const many, changes = 100_000, 200
	stored := make([]Ban, many)
	for i := range stored {
		a := netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)})
		stored[i] = Ban{Prefix: netip.PrefixFrom(a, 32), Author: "list"}
	}
	b := NewBans(terms)
	if err := b.Sync(start, func() ([]Ban, error) { return stored, nil }, nil); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range changes {
		b.Offend(start, netip.AddrFrom4([4]byte{30, 1, byte(i >> 8), byte(i)}), "flood")
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / changes
	t.Logf("a change takes %d bytes", each)
	if each > 64<<10 || len(b.All()) != many+changes {
		t.Errorf("a change takes %d bytes beside %d bans", each, len(b.All()))
	}
}
