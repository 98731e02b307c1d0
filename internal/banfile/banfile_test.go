package banfile

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/ratelimit"
)

var (
	now   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	terms = ratelimit.Terms{
		First: time.Minute, Longest: time.Hour, Memory: time.Hour,
	}
)

func TestThereAndBack(t *testing.T) {
	bans := []ratelimit.Ban{
		{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Reason: "a <quote> \" and\na line", Author: "ann", Since: now},
		{Prefix: netip.MustParsePrefix("2001:db8::/64"), Author: "tidegate", Since: now, Until: now.Add(time.Hour), Times: 3},
	}
	f := File(filepath.Join(t.TempDir(), "bans.jsonl"))
	if got, err := f.Read(); err != nil || got != nil {
		t.Fatalf("a file that is not there: %v, %v", got, err)
	}
	if err := f.write(bans); err != nil {
		t.Fatal(err)
	}
	got, err := f.Read()
	if err != nil || !reflect.DeepEqual(got, bans) {
		t.Errorf("%v; came back as\n%+v\nwant\n%+v", err, got, bans)
	}
	left, _ := filepath.Glob(string(f) + ".*")
	if len(left) > 0 {
		t.Errorf("files are left behind: %v", left)
	}
}

// TestReadsWhatItWrites: no ban makes the file unreadable, and neither does their number.
func TestReadsWhatItWrites(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "bans.jsonl"))
	var bans []ratelimit.Ban
	for i, reason := range []string{
		strings.Repeat("x", 9000), strings.Repeat("\x01", 128<<10), strings.Repeat("\xff", 9000), strings.Repeat("é", 600),
		"\n",
	} {
		bans = append(bans, ratelimit.Ban{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32), Reason: reason, Author: reason,
		})
	}
	if err := f.write(bans); err != nil {
		t.Fatal(err)
	}
	got, err := f.Read()
	if err != nil || len(got) != len(bans) {
		t.Fatalf("%d of %d bans, %v", len(got), len(bans), err)
	}
	for _, b := range got {
		if len(b.Reason) > 3*MaxText { // a byte that is no UTF-8 becomes three
			t.Errorf("a reason has %d bytes", len(b.Reason))
		}
	}
	defer func(n int) { maxBans = n }(maxBans)
	maxBans = len(bans) - 1
	if err := f.write(bans); err == nil || !strings.Contains(err.Error(), "room for 4") {
		t.Errorf("one ban too many: %v", err)
	}
	maxBans = len(bans)
	if got, err := f.Read(); err != nil || len(got) != len(bans) {
		t.Errorf("after a refusal: %d bans, %v", len(got), err)
	}
}

// TestReadsLongLines: a line of an earlier release, whose reason was as long as a command line could have, is read.
func TestReadsLongLines(t *testing.T) {
	line := `{"prefix":"192.0.2.1","reason":"` + strings.Repeat(`\u0001`, 128<<10) + `"}`
	bans, err := parse(strings.NewReader(line))
	if err != nil || len(bans) != 1 || len(bans[0].Reason) != MaxText {
		t.Errorf("%d bans, %v", len(bans), err)
	}
}

func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"prefix":"192.0.2.1"}` + "\n\n" + `{"prefix":"x"}`: `3: "x" is neither an address nor a prefix`,
		`192.0.2.1`:                              "1: want an object of JSON",
		`{"prefix":"192.0.2.1","for":"1h"}`:      `1: want an object of JSON: json: unknown field "for"`,
		`{"prefix":"192.0.2.1"} {}`:              "1: want one object of JSON on a line",
		`{"prefix":"192.0.2.1","until":"never"}`: "1: want an object of JSON: parsing time",
		strings.Repeat(" ", maxLine+1):           "1: bufio.Scanner: token too long",
		`{"reason":"nobody"}`:                    `1: "" is neither an address nor a prefix`,
	} {
		if _, err := parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}

func TestTheLastLineOfANetworkCounts(t *testing.T) {
	bans, err := parse(strings.NewReader(`{"prefix":"192.0.2.1","reason":"first"}
{"prefix":"192.0.2.1/32","reason":"second"}`))
	if err != nil || len(bans) != 1 || bans[0].Reason != "second" {
		t.Errorf("%v, %+v", err, bans)
	}
}

// TestManyWriters checks that no ban is lost when several processes write at the same time.
func TestManyWriters(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "bans.jsonl"))
	const writers, each = 4, 10
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			bans := ratelimit.NewBans(terms)
			for i := range each {
				bans.Offend(now, netip.AddrFrom4([4]byte{10, byte(w), 0, byte(i)}), "x")
				if err := f.Sync(now, bans); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if bans, err := f.Read(); err != nil || len(bans) != writers*each {
		t.Errorf("%v; %d bans, want %d", err, len(bans), writers*each)
	}
}

// TestFileThatCannotBeWritten checks that Sync fails only if there is something to write, and that memory keeps it.
func TestFileThatCannotBeWritten(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "no such folder", "bans.jsonl"))
	bans := ratelimit.NewBans(terms)
	if err := f.Sync(now, bans); err != nil {
		t.Errorf("with nothing to write: %v", err)
	}
	bans.Offend(now, netip.MustParseAddr("10.0.0.1"), "x")
	if err := f.Sync(now, bans); err == nil {
		t.Error("want an error")
	}
	if len(bans.All()) != 1 {
		t.Errorf("in force are %+v", bans.All())
	}
}

// TestDamagedFileChangesNothing checks that the earlier bans stay in force.
func TestDamagedFileChangesNothing(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "bans.jsonl"))
	bans := ratelimit.NewBans(terms)
	bans.Add(ratelimit.Ban{Prefix: netip.MustParsePrefix("192.0.2.0/24")})
	if err := f.Sync(now, bans); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(string(f), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(now, bans); err == nil || !strings.Contains(err.Error(), string(f)+":1: ") {
		t.Errorf("%v", err)
	}
	if len(bans.All()) != 1 {
		t.Errorf("in force are %+v", bans.All())
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"prefix":"192.0.2.0/24","reason":"r","author":"a","since":"2026-11-21T10:00:00Z",` +
		`"until":"2026-11-22T10:00:00Z","times":2}`))
	f.Add([]byte("\n{\"prefix\":\"::ffff:1.2.3.0/120\"}\n{\"prefix\":\"1.2.3.0/24\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		bans, err := parse(bytes.NewReader(text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := format(&out, bans); err != nil {
			t.Skip(err) // a year beyond 9999
		}
		again, err := parse(&out)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(bans) {
			t.Fatalf("%v became %v, %v", bans, again, err)
		}
	})
}
