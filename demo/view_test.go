package demo

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/proxy"
)

// snapshots are two looks at the same sessions, a second apart.
func snapshots(sessions int) (first, second proxy.Snapshot) {
	for i := range sessions {
		one := proxy.Session{
			Client: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(40001+i)),
			Age:    time.Second,

			ClientProtocol: "riptide-2.2", UpstreamProtocol: "bedrock",
			FromClient:   proxy.Traffic{Messages: 10, Bytes: 1000},
			FromUpstream: proxy.Traffic{Messages: 5, Bytes: 500},
		}
		first.Sessions = append(first.Sessions, one)
		one.Age += time.Second
		one.FromClient = proxy.Traffic{Messages: 50, Bytes: 13_340}
		one.FromUpstream = proxy.Traffic{Messages: 44, Bytes: 1_500_500}
		one.ClientStats = codec.Stats{RTT: 1234 * time.Microsecond, Resent: 12, Dropped: 2}
		if i == 0 {
			one.UpstreamStats = codec.Stats{RTT: 52 * time.Millisecond, Resent: 1, Dropped: 3}
		}
		second.Sessions = append(second.Sessions, one)
	}
	return first, second
}

func TestTableOnTerminal(t *testing.T) {
	var out strings.Builder
	began := time.Unix(1_700_000_000, 0)
	v := newView(&out, true, began)
	first, second := snapshots(2)
	v.show(began.Add(time.Second), first)
	out.Reset()
	v.show(began.Add(2*time.Second), second)
	const want = "\x1b[5A" +
		`riptide-2.2 to bedrock          round trip        to server        to client          resent
client             age     client   server   msg/s  bytes/s   msg/s  bytes/s   client server dropped
127.0.0.1:40001    2 s     1.2 ms  52.0 ms      40  12.3 kB      39   1.5 MB       12      1       5
127.0.0.1:40002    2 s     1.2 ms        -      40  12.3 kB      39   1.5 MB       12      0       2
all 2              2 s     1.2 ms  52.0 ms      80  24.7 kB      78   3.0 MB       24      1       7
`
	if got := strings.ReplaceAll(out.String(), "\x1b[K\n", "\n"); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
	if got := strings.Count(out.String(), clearEnd); got != 5 {
		t.Errorf("%d lines are cleared to their ends, want all 5", got)
	}
}

func TestTableFitsOnScreenAndShrinks(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1_700_000_000, 0)
	v := newView(&out, true, now)
	many, _ := snapshots(maxRows + 3)
	few, _ := snapshots(1)
	v.show(now.Add(time.Second), many)
	if got := strings.Count(out.String(), "\n"); got != maxRows+4 || !strings.Contains(out.String(), "and 3 more") {
		t.Fatalf("%d lines for %d sessions:\n%s", got, len(many.Sessions), out.String())
	}
	out.Reset()
	v.show(now.Add(2*time.Second), few)
	if got := strings.Count(out.String(), clearEnd+"\n"); got != maxRows+4 {
		t.Errorf("%d lines cleared for a table that shrank from %d", got, maxRows+4)
	}
}

func TestPlainLines(t *testing.T) {
	var out strings.Builder
	began := time.Unix(1_700_000_000, 0)
	v := newView(&out, false, began)
	first, second := snapshots(2)
	v.show(began.Add(time.Second), first)
	v.show(began.Add(2*time.Second), second)
	const want = `riptide-2.2 to bedrock          round trip        to server        to client          resent
time              open     client   server   msg/s  bytes/s   msg/s  bytes/s   client server dropped
1 s                  2          -        -      20   2.0 kB      10   1.0 kB        0      0       0
2 s                  2     1.2 ms  52.0 ms      80  24.7 kB      78   3.0 MB       24      1       7
`
	if got := out.String(); got != want {
		t.Errorf("lines:\n%s\nwant:\n%s", got, want)
	}
}
