package fleet

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/ratelimit"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func banOf(network string) ratelimit.Ban {
	return ratelimit.Ban{
		Prefix: netip.MustParsePrefix(network), Reason: "aimbot", Author: "ann", Since: now, Until: now.Add(time.Hour),
	}
}

// TestRecordsThereAndBack writes and reads records.
func TestRecordsThereAndBack(t *testing.T) {
	permanent := banOf("2001:db8::/64")
	permanent.Until = time.Time{}
	for _, want := range []record{
		{ban: banOf("192.0.2.0/24"), changed: now, node: "ams1"},
		{ban: permanent, changed: now.Add(-time.Second), node: "fra1"},
		{ban: banOf("0.0.0.0/0"), removed: true, changed: now},
	} {
		value, err := want.format()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseBan(keyOf(want.ban.Prefix), value, now)
		if err != nil || !got.same(&want) || !got.changed.Equal(want.changed) || got.node != want.node {
			t.Errorf("%v; %+v came back as %+v", err, want, got)
		}
	}
}

// TestHostileRecords refuses records that are not those of their key, and bounds the others.
func TestHostileRecords(t *testing.T) {
	good := banOf("192.0.2.0/24")
	key := keyOf(good.Prefix)
	for name, c := range map[string]struct{ key, value string }{
		"not JSON":           {key, "{"},
		"no network":         {key, "{}"},
		"another network":    {key, `{"prefix":"192.0.3.0/24"}`},
		"bits of the host":   {"c0000207/24", `{"prefix":"192.0.2.7/24"}`},
		"capital letters":    {"C0000200/24", `{"prefix":"192.0.2.0/24"}`},
		"mapped":             {"00000000000000000000ffffc0000200/120", `{"prefix":"192.0.2.0/24"}`},
		"bits with a sign":   {"c0000200/+24", `{"prefix":"192.0.2.0/24"}`},
		"too many bits":      {"c0000200/33", `{"prefix":"192.0.2.0/33"}`},
		"five bytes":         {"c000020000/24", `{"prefix":"192.0.2.0/24"}`},
		"no key":             {"", `{"prefix":"192.0.2.0/24"}`},
		"too long":           {key, `{"prefix":"192.0.2.0/24","reason":"` + strings.Repeat("x", maxRecord) + `"}`},
		"the year 10000":     {key, `{"prefix":"192.0.2.0/24","until":"9999-12-31T23:59:59-23:59"}`},
		"a time of nonsense": {key, `{"prefix":"192.0.2.0/24","until":"99999-01-01T00:00:00Z"}`},
	} {
		if r, err := parseBan(c.key, []byte(c.value), now); err == nil {
			t.Errorf("%s: got %+v, want an error", name, r)
		}
	}
	value := `{"prefix":"192.0.2.0/24","changed":"2090-01-01T00:00:00Z","node":"` + strings.Repeat("n", 5000) + `"}`
	r, err := parseBan(key, []byte(value), now)
	if err != nil || r.changed.After(now) || len(r.node) > 1024 {
		t.Errorf("%v; changed %v, a node of %d bytes", err, r.changed, len(r.node))
	}
}

// TestLargestRecordFits writes the longest texts of a ban, with every byte escaped, and reads them.
func TestLargestRecordFits(t *testing.T) {
	ban := banOf("2001:db8::1/128")
	ban.Reason, ban.Author = strings.Repeat("\x01", 9000), strings.Repeat("\x01", 9000)
	r := record{ban: ban, changed: now, node: strings.Repeat("n", 64)}
	value, err := r.format()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseBan(keyOf(ban.Prefix), value, now); err != nil {
		t.Errorf("%d bytes: %v", len(value), err)
	}
}

// TestTimeToLive keeps a record as long as a node may need it.
func TestTimeToLive(t *testing.T) {
	short, forever, centuries := banOf("192.0.2.0/24"), banOf("192.0.2.0/24"), banOf("192.0.2.0/24")
	forever.Until, centuries.Until = time.Time{}, now.AddDate(5000, 0, 0)
	for _, c := range []struct {
		r    record
		want time.Duration
	}{
		{record{ban: short}, time.Hour + skew},
		{record{ban: forever}, 0},
		{record{ban: centuries}, 0},
		{record{ban: short, removed: true, changed: now}, time.Hour + skew},
		{record{ban: forever, removed: true, changed: now}, removalMemory + skew},
	} {
		if got := c.r.timeToLive(now); got != c.want {
			t.Errorf("%+v: %v, want %v", c.r, got, c.want)
		}
	}
}

// FuzzRecord reads any key and value. A record that is read has bounded parts and can be written.
func FuzzRecord(f *testing.F) {
	f.Add("c0000200/24", []byte(`{"prefix":"192.0.2.0/24","reason":"x","until":"2026-11-23T13:00:00Z","times":3}`))
	f.Add("20010db8000000000000000000000000/64", []byte(`{"prefix":"2001:db8::/64","removed":true,"node":"a"}`))
	f.Add("c0000200/24", []byte(`{"prefix":"192.0.2.0/24","changed":"2090-01-01T00:00:00Z","times":-1}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		r, err := parseBan(key, value, now)
		if err != nil {
			return
		}
		if r.changed.After(now) || len(r.ban.Reason) > 1024 || len(r.ban.Author) > 1024 || len(r.node) > 1024 ||
			r.ban.Times < 0 || r.ban.Prefix != r.ban.Prefix.Masked() {
			t.Fatalf("not bounded: %+v", r)
		}
		if ttl := r.timeToLive(now); ttl != 0 && ttl < time.Second {
			t.Fatalf("lives for %v", ttl)
		}
		again, err := r.format()
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", r, err)
		}
		if !json.Valid(again) {
			t.Fatalf("%q", again)
		}
		if back, err := parseBan(key, again, now); err == nil && !back.same(r) {
			t.Fatalf("%+v came back as %+v", r, back)
		}
	})
}
