package relay

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/joining"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// TestNoSourceTakesAllLines has a source with constant drops. It leaves log lines for others, and still gets a line
// now and then.
func TestNoSourceTakesAllLines(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	j := newJournal(now, zerolog.New(&log), zerolog.Nop(), false, 1)
	loud, quiet := netip.MustParseAddrPort("192.0.2.7:4000"), netip.MustParseAddrPort("203.0.113.1:4000")
	for range 120 {
		for range 1000 {
			j.drop(now, stats.DropUnknownProtocol, "play", loud, 14, nil)
		}
		now = now.Add(time.Second)
	}
	if n := strings.Count(log.String(), loud.String()); n < 2 || n > 4 {
		t.Errorf("%d lines about one source in two minutes, want 2 and one a minute more", n)
	}
	if j.drop(now, stats.DropUnknownProtocol, "play", quiet, 14, nil); !strings.Contains(log.String(), quiet.String()) {
		t.Error("nothing is told of the other source")
	}
}

// TestManySourcesTakeFewLines asserts that a flood of forged sources gets no more lines than its kind of drop may
// have.
func TestManySourcesTakeFewLines(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	j := newJournal(now, zerolog.New(&log), zerolog.Nop(), false, 1)
	for i := range 60_000 {
		j.drop(now, stats.DropAskAgain, "play", strangerAddr(i), 1, nil)
		now = now.Add(time.Millisecond)
	}
	if n, most := strings.Count(log.String(), "\n"), dropLogBurst+int(time.Minute/dropLogEvery); n > most || n < most/2 {
		t.Errorf("%d lines in a minute, want at most %d", n, most)
	}
}

// TestWhatWasLeftOutIsToldInTheEnd asserts that the number of suppressed lines is logged, even if no further drop of
// their kind happens. Then nothing is left to do.
func TestWhatWasLeftOutIsToldInTheEnd(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	j := newJournal(now, zerolog.New(&log), zerolog.Nop(), false, 1)
	for range 100 {
		j.drop(now, stats.DropAskAgain, "play", strangerAddr(1), 1, nil)
	}
	log.Reset()
	same := j
	if same.settle(now); !strings.Contains(log.String(), `"suppressed":98,`) {
		t.Errorf("told %s before the end", log.String())
	}
	log.Reset()
	if j.catchUp(now.Add(catchUpAfter - 1)); log.Len() > 0 {
		t.Error("told too early")
	}
	j.catchUp(now.Add(catchUpAfter))
	if want := `"about":"ask-again","suppressed":98,`; !strings.Contains(log.String(), want) || !j.lines.due.IsZero() {
		t.Errorf("told %s, want %s", log.String(), want)
	}
}

// TestFailedJoinsTakeFewLines has a source whose joins fail. It gets a few lines, and the others are counted.
func TestFailedJoinsTakeFewLines(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	l := NewJoinLog(now, zerolog.New(&log), false, 1)
	for range 50 {
		l.Failed(now, joining.Join{Client: netip.MustParseAddr("192.0.2.7"), Stage: joining.Failed})
	}
	l.CatchUp(now.Add(catchUpAfter))
	if n := strings.Count(log.String(), "192.0.2.7"); n != 2*2 || !strings.Contains(log.String(), `"suppressed":48,`) {
		t.Errorf("told %s", log.String())
	}
}

// TestFailedJoinsHideAddresses logs joins of each stage without their addresses, and malformed ones without a server.
func TestFailedJoinsHideAddresses(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	for stage := joining.Asked; stage <= joining.Malformed; stage++ {
		NewJoinLog(now, zerolog.New(&log), true, 1).Failed(now, joining.Join{
			Client: netip.MustParseAddr("192.0.2.7"), From: netip.MustParseAddrPort("[2001:db8::7]:1"), Stage: stage,
		})
	}
	if strings.Contains(log.String(), "192.0.2.7") || strings.Contains(log.String(), "db8::7") ||
		strings.Count(log.String(), `"client":"192.0.2.0/24"`) != int(joining.Malformed)+1 ||
		strings.Count(log.String(), `"server":`) != int(joining.Malformed) {
		t.Errorf("told %s", log.String())
	}
}

func TestEveryKindOfLineHasAName(t *testing.T) {
	names := make(map[string]bool)
	for k := range lineKinds {
		names[k.String()] = true
	}
	if len(names) != int(lineKinds) || names["unknown"] {
		t.Errorf("%d kinds have %d names", lineKinds, len(names))
	}
}

// pacedConn is a connection to a server that has told its pace.
type pacedConn struct {
	codec.Conn
	pace uint8
}

func (c *pacedConn) Pace() uint8 { return c.pace }

func (*pacedConn) SetPace(uint8) {}

// TestPacesTakeFewLines asserts that joins at servers of different paces do not write a line each.
func TestPacesTakeFewLines(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var log bytes.Buffer
	r := &Relay{journal: newJournal(now, zerolog.New(&log), zerolog.Nop(), false, 1)}
	arena := &route{Route: &Route{Upstream: &Upstream{Name: "arena"}}, pool: new(upstream.Pool)}
	s := &link{terminated: new(terminated), route: arena}
	for i := range 1000 {
		s.server = &upstream.Server{Addr: netip.AddrPortFrom(serverAddr.Addr(), uint16(1+i%2))}
		s.upstream.Conn = &pacedConn{pace: uint8(30 + i%2)}
		r.notePace(now, s)
	}
	if n := strings.Count(log.String(), `"upstream":"arena"`); n == 0 || n > dropLogBurst {
		t.Errorf("%d lines, want at most %d", n, dropLogBurst)
	}
}
