package simnet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	addrA = netip.MustParseAddrPort("10.0.0.1:1")
	addrB = netip.MustParseAddrPort("10.0.0.2:2")
	addrC = netip.MustParseAddrPort("10.0.0.2:3")
)

// arrival is a datagram that a recorder has received.
type arrival struct {
	at       time.Time
	from, to netip.AddrPort
	number   uint32
}

// outgoing is a datagram that a recorder is going to send.
type outgoing struct {
	from, to netip.AddrPort
	datagram []byte
}

// recorder is a node that sends given datagrams, records received ones, and answers if it is an echo.
type recorder struct {
	out     []outgoing
	in      []arrival
	kept    []byte // the last datagram itself, kept against law 2
	echo    bool
	timeout time.Time
	stuck   bool // Advance does not move timeout on
}

func (r *recorder) send(from, to netip.AddrPort, number uint32, size int) {
	datagram := make([]byte, max(size, 4))
	binary.BigEndian.PutUint32(datagram, number)
	r.out = append(r.out, outgoing{from, to, datagram})
}

func (r *recorder) Receive(now time.Time, from, to netip.AddrPort, datagram []byte) {
	number := binary.BigEndian.Uint32(datagram)
	r.in = append(r.in, arrival{now, from, to, number})
	r.kept = datagram
	if r.echo {
		r.send(to, from, number, len(datagram))
	}
}

func (r *recorder) Advance(time.Time) {
	if !r.stuck {
		r.timeout = time.Time{}
	}
}

func (r *recorder) NextTimeout() time.Time { return r.timeout }

func (r *recorder) Transmit(_ time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(r.out) == 0 {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	next := r.out[0]
	r.out = r.out[1:]
	return append(b, next.datagram...), next.from, next.to, true
}

func (r *recorder) numbers() []uint32 {
	var numbers []uint32
	for _, a := range r.in {
		numbers = append(numbers, a.number)
	}
	return numbers
}

// pairOf returns a network of a sender at addrA and an echo at addrB and addrC.
func pairOf(tb TB, seed uint64, weather Weather) (n *Net, sender, echo *recorder) {
	sender, echo = &recorder{}, &recorder{echo: true}
	n = New(tb, seed, weather)
	n.Add(sender, addrA)
	n.Add(echo, addrB, addrC)
	return n, sender, echo
}

// sendThousand sends 1,000 datagrams through weather and returns the network and its nodes.
func sendThousand(t *testing.T, seed uint64, weather Weather) (n *Net, sender, echo *recorder) {
	n, sender, echo = pairOf(t, seed, weather)
	for i := range uint32(1000) {
		sender.send(addrA, addrB, i, 100)
		n.Run(10 * time.Millisecond)
	}
	n.Run(time.Minute)
	return n, sender, echo
}

func TestClearWeatherDeliversInOrderAtOnce(t *testing.T) {
	n, sender, echo := pairOf(t, 1, Weather{Latency: 30 * time.Millisecond})
	sender.send(addrA, addrC, 7, 4)
	sender.send(addrA, addrB, 8, 4)
	start := n.Now()
	if n.Run(29 * time.Millisecond); len(echo.in) != 0 {
		t.Fatalf("arrived before the latency: %v", echo.in)
	}
	n.Run(time.Minute)
	want := []arrival{
		{start.Add(30 * time.Millisecond), addrA, addrC, 7},
		{start.Add(30 * time.Millisecond), addrA, addrB, 8},
	}
	if !slices.Equal(echo.in, want) {
		t.Errorf("echo received %v, want %v", echo.in, want)
	}
	if got := sender.numbers(); !slices.Equal(got, []uint32{7, 8}) || sender.in[0].from != addrC {
		t.Errorf("sender received %v, want 7 from %v, then 8", sender.in, addrC)
	}
	if n.Elapsed() != time.Minute+29*time.Millisecond {
		t.Errorf("Elapsed = %v, want all the time that was run", n.Elapsed())
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	foul := Weather{Loss: 0.2, Duplication: 0.1, Latency: 20 * time.Millisecond, Jitter: 100 * time.Millisecond}
	first, _, _ := sendThousand(t, 1, foul)
	again, _, _ := sendThousand(t, 1, foul)
	other, _, _ := sendThousand(t, 2, foul)
	if first.Digest() != again.Digest() || !slices.Equal(first.Trace(), again.Trace()) {
		t.Error("two runs of one seed differ")
	}
	if first.Digest() == other.Digest() || slices.Equal(first.Trace(), other.Trace()) {
		t.Error("runs of two seeds are equal")
	}
}

func TestDatagramIsOverwrittenAfterReceive(t *testing.T) {
	n, sender, echo := pairOf(t, 1, Weather{})
	sender.send(addrA, addrB, 7, 64)
	n.Run(time.Second)
	if want := bytes.Repeat([]byte{garbage}, 64); !bytes.Equal(echo.kept, want) {
		t.Errorf("kept datagram reads %x, want garbage", echo.kept)
	}
}

func TestRemovedAddressIsUnreachable(t *testing.T) {
	n, sender, echo := pairOf(t, 1, Weather{})
	n.Remove(addrB)
	sender.send(addrA, addrB, 1, 4)
	sender.send(addrA, addrC, 2, 4)
	n.Run(time.Second)
	if got := echo.numbers(); !slices.Equal(got, []uint32{2}) {
		t.Errorf("echo received %v, want only what went to the address it kept", got)
	}
	echo.timeout = n.Now()
	if n.Remove(addrC); n.nextMoment() != (time.Time{}) {
		t.Error("a node without addresses is still driven")
	}
}

func TestInjectIgnoresTheWeather(t *testing.T) {
	n, _, echo := pairOf(t, 1, Weather{Loss: 1})
	n.Inject(5*time.Millisecond, addrA, addrB, []byte{0, 0, 0, 9})
	start := n.Now()
	n.Run(time.Second)
	if want := []arrival{{start.Add(5 * time.Millisecond), addrA, addrB, 9}}; !slices.Equal(echo.in, want) {
		t.Errorf("echo received %v, want %v", echo.in, want)
	}
}

func TestAfterMayGiveInput(t *testing.T) {
	n, sender, echo := pairOf(t, 1, Weather{})
	start := n.Now()
	n.After(3*time.Second, func() { sender.send(addrA, addrB, 1, 4) })
	if !n.RunUntil(time.Minute, func() bool { return len(sender.in) == 1 }) {
		t.Fatal("the answer never came")
	}
	if want := start.Add(3 * time.Second); echo.in[0].at != want || n.Now() != want {
		t.Errorf("sent at %v, run ended at %v, want both %v", echo.in[0].at, n.Now(), want)
	}
	if n.RunUntil(time.Second, func() bool { return false }) {
		t.Error("RunUntil reports done at its limit")
	}
}

func TestTapSeesWhatTheWeatherLoses(t *testing.T) {
	n, sender, _ := pairOf(t, 1, Weather{Loss: 1})
	var seen []string
	n.SetTap(func(from, to netip.AddrPort, datagram []byte) {
		seen = append(seen, fmt.Sprintf("%v %v %x", from, to, datagram))
	})
	sender.send(addrA, addrB, 5, 4)
	n.Run(time.Second)
	if want := []string{"10.0.0.1:1 10.0.0.2:2 00000005"}; !slices.Equal(seen, want) {
		t.Errorf("tap saw %v, want %v", seen, want)
	}
}

// failures is a TB that has failed.
type failures struct {
	cleanup func()
	log     []string
	errors  []string
}

func (*failures) Helper()            {}
func (*failures) Failed() bool       { return true }
func (f *failures) Cleanup(c func()) { f.cleanup = c }

func (f *failures) Logf(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *failures) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func TestFailureTellsItsStory(t *testing.T) {
	var tb failures
	n, sender, _ := pairOf(&tb, 42, Weather{Latency: time.Millisecond})
	for i := range uint32(60) {
		sender.send(addrA, addrB, i, 10)
	}
	n.Run(time.Second)
	tb.cleanup()
	if len(tb.log) != 1+traceLines || !strings.Contains(tb.log[0], "-seed=42") {
		t.Fatalf("log has %d lines, first %q; want the seed and %d datagrams", len(tb.log), tb.log[0], traceLines)
	}
	want := "         1ms 10.0.0.2:2 -> 10.0.0.1:1   10 arrives +1ms"
	if got := tb.log[traceLines]; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
}

func TestBusyLoopIsReported(t *testing.T) {
	var tb failures
	n, sender, _ := pairOf(&tb, 1, Weather{})
	sender.timeout, sender.stuck = n.Now(), true
	if n.Run(time.Second); len(tb.errors) != 1 || !strings.Contains(tb.errors[0], "busy loop") {
		t.Errorf("errors %v, want one that says busy loop", tb.errors)
	}
}

func TestAddRefusesAnAddressInUse(t *testing.T) {
	n, _, _ := pairOf(t, 1, Weather{})
	defer func() {
		if recover() == nil {
			t.Error("Add took an address twice")
		}
	}()
	n.Add(&recorder{}, addrA)
}
