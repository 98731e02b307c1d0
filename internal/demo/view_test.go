package demo

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/proxy"
	"tidegate/proxy/stats"
)

// snapshots returns two snapshots of the same sessions, one second apart.
func snapshots(sessions int) (first, second proxy.Snapshot) {
	for i := range sessions {
		one := proxy.Session{
			Client: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(40001+i)),
			Age:    time.Second,

			ClientProtocol: "riptide-2.2", UpstreamProtocol: "bedrock",
			FromClient:   stats.Traffic{Messages: 10, Bytes: 1000},
			FromUpstream: stats.Traffic{Messages: 5, Bytes: 500},
		}
		first.Sessions = append(first.Sessions, one)
		one.Age += time.Second
		one.FromClient = stats.Traffic{Messages: 50, Bytes: 13_340}
		one.FromUpstream = stats.Traffic{Messages: 44, Bytes: 1_500_500}
		one.ClientStats = codec.Stats{RTT: 1234 * time.Microsecond, Resent: 12, Dropped: 2}
		if i == 0 {
			one.UpstreamStats = codec.Stats{RTT: 52 * time.Millisecond, Resent: 1, Dropped: 3}
		}
		second.Sessions = append(second.Sessions, one)
	}
	return first, second
}

// fixed returns a terminal of constant size.
func fixed(width, height int) func() screen {
	return func() screen { return screen{width: width, height: height} }
}

// drawn returns a table as it is drawn: each line is cleared first, and everything below the last line too.
func drawn(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		b.WriteString("\x1b[K" + line)
	}
	return b.String() + "\x1b[J"
}

func TestTableOnTerminal(t *testing.T) {
	for _, step := range []struct {
		width int
		want  string
	}{
		{100, `riptide-2.2 to bedrock
                                round trip        to server        to client          resent
client             age     client   server   msg/s  bytes/s   msg/s  bytes/s   client server dropped
127.0.0.1:40001    2 s     1.2 ms  52.0 ms      40  12.3 kB      39   1.5 MB       12      1       5
127.0.0.1:40002    2 s     1.2 ms        -      40  12.3 kB      39   1.5 MB       12      0       2
all 2              2 s     1.2 ms  52.0 ms      80  24.7 kB      78   3.0 MB       24      1       7
`},
		{80, `riptide-2.2 to bedrock
              round trip, ms     to server     to client         resent
client    age  client server  msg/s   kB/s  msg/s   kB/s  client server dropped
:40001    2 s     1.2   52.0     40   12.3     39 1500.0      12      1       5
:40002    2 s     1.2      -     40   12.3     39 1500.0      12      0       2
all 2     2 s     1.2   52.0     80   24.7     78 3000.0      24      1       7
`},
		{60, `riptide-2.2 to bedrock
              round trip, ms  messages/s to
client    age  client server  server client  resent dropped
:40001    2 s     1.2   52.0      40     39      13       5
:40002    2 s     1.2      -      40     39      12       2
all 2     2 s     1.2   52.0      80     78      25       7
`},
		{40, `riptide-2.2 to bedrock
         round trip, ms  messages/s to
client    client server  server client
:40001       1.2   52.0      40     39
:40002       1.2      -      40     39
all 2        1.2   52.0      80     78
`},
		{17, `riptide-2.2 to be
         round tr
client    client 
:40001       1.2 
:40002       1.2 
all 2        1.2 
`},
	} {
		var out strings.Builder
		began := time.Unix(1_700_000_000, 0)
		v := newView(&out, fixed(step.width, 24), began)
		first, second := snapshots(2)
		v.show(began.Add(time.Second), first)
		out.Reset()
		v.show(began.Add(2*time.Second), second)
		want := "\r\x1b[6A" + drawn(step.want)
		if got := out.String(); got != want {
			t.Errorf("table at width %d:\n%s\nwant:\n%s", step.width, got, want)
		}
	}
}

// TestTableFitsOnScreen leaves out sessions, and at last the heading, on lower screens.
func TestTableFitsOnScreen(t *testing.T) {
	for _, step := range []struct {
		sessions, height, rows int // rows is the number of sessions
		more                   string
	}{
		{20, 25, 20, ""},
		{21, 25, 19, "... and 2 more\n"},
		{500, 24, 18, "... and 482 more\n"},
		{5, 7, 1, "... and 4 more\n"},
		{5, 6, 0, "... and 5 more\n"},
		{5, 3, 0, "... and 5 more\n"},
		{5, 2, 0, ""},
		{5, 1, 0, ""},
	} {
		var out strings.Builder
		now := time.Unix(1_700_000_000, 0)
		many, _ := snapshots(step.sessions)
		newView(&out, fixed(80, step.height), now).show(now.Add(time.Second), many)
		text := out.String()
		if got := strings.Count(text, "\n"); got > max(step.height-1, 1) {
			t.Errorf("%d lines on a screen of height %d", got, step.height)
		}
		if got := strings.Count(text, "K:4"); got != step.rows {
			t.Errorf("%d of %d sessions at height %d, want %d", got, step.sessions, step.height, step.rows)
		}
		if got := strings.Contains(text, "more\n"); got != (step.more != "") || !strings.Contains(text, step.more) {
			t.Errorf("height %d lacks %q:\n%s", step.height, step.more, text)
		}
		if !strings.Contains(text, "all ") {
			t.Errorf("height %d lacks the sum:\n%s", step.height, text)
		}
	}
}

// TestTableFollowsResize draws on a terminal that changes its size, and checks the start row of each table.
func TestTableFollowsResize(t *testing.T) {
	var out strings.Builder
	var size screen
	now := time.Unix(1_700_000_000, 0)
	v := newView(&out, func() screen { return size }, now)
	many, _ := snapshots(4)
	few, _ := snapshots(1)
	for _, step := range []struct {
		what     string
		size     screen
		snapshot proxy.Snapshot
		want     string // as far as the protocols
	}{
		{"first", screen{100, 24}, many, ""},
		{"again", screen{100, 24}, many, "\r\x1b[8A"},
		{"narrower: all lines but one were longer than 50", screen{50, 24}, many, "\r\x1b[15A"},
		{"wider", screen{100, 24}, many, "\r\x1b[8A"},
		{"fewer sessions", screen{100, 24}, few, "\r\x1b[8A"},
		{"fewer before", screen{100, 24}, few, "\r\x1b[5A"},
	} {
		size = step.size
		out.Reset()
		now = now.Add(time.Second)
		v.show(now, step.snapshot)
		if got, _, _ := strings.Cut(out.String(), "\x1b[Kriptide-2.2 to"); got != step.want {
			t.Errorf("%s: begins with %q, want %q", step.what, got, step.want)
		}
	}
}

// TestNoSessionsYet leaves out the protocols, which only sessions have.
func TestNoSessionsYet(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1_700_000_000, 0)
	newView(&out, fixed(40, 12), now).show(now.Add(time.Second), proxy.Snapshot{})
	const want = `         round trip, ms  messages/s to
client    client server  server client
all 0          -      -       0      0
`
	if got := out.String(); got != drawn(want) {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

func TestPlainLines(t *testing.T) {
	var out strings.Builder
	began := time.Unix(1_700_000_000, 0)
	v := newView(&out, nil, began)
	first, second := snapshots(2)
	v.show(began.Add(time.Second), first)
	v.show(began.Add(2*time.Second), second)
	const want = `riptide-2.2 to bedrock
              round trip, ms     to server     to client         resent
time     open  client server  msg/s   kB/s  msg/s   kB/s  client server dropped
1 s         2       -      -     20    2.0     10    1.0       0      0       0
2 s         2     1.2   52.0     80   24.7     78 3000.0      24      1       7
`
	if got := out.String(); got != want {
		t.Errorf("lines:\n%s\nwant:\n%s", got, want)
	}
}

func TestTextAroundTable(t *testing.T) {
	const text = "four clients play\non it\n"
	const wrapped = "four clients\nplay\non it\n"
	var out strings.Builder
	v := newView(&out, fixed(12, 24), time.Time{})
	v.introduce(text)
	v.conclude(text)
	if got := out.String(); got != wrapped+wrapped {
		t.Errorf("on a terminal %q, want %q twice", got, wrapped)
	}
	out.Reset()
	v = newView(&out, nil, time.Time{})
	long := strings.Repeat("x", 70) + " " + strings.Repeat("y", 70) + "\n"
	v.introduce(long)
	v.conclude(long)
	if got, want := out.String(), strings.Replace(long, " ", "\n", 1)+long; got != want {
		t.Errorf("elsewhere %q, want %q", got, want)
	}
}
