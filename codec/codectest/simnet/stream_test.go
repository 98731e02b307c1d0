package simnet

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// reader is a node that accepts or refuses streams and records them.
type reader struct {
	recorder
	refuses  bool
	accepted []netip.AddrPort
	text     []byte
	cut      int    // segments that continue the text of the one before
	joined   int    // segments with more than one text
	last     []byte // the last segment itself, kept against law 2
	ended    []time.Time
}

func (r *reader) Accept(_ time.Time, from, _ netip.AddrPort) bool {
	r.accepted = append(r.accepted, from)
	return !r.refuses
}

func (r *reader) Segment(_ time.Time, _, _ netip.AddrPort, segment []byte) {
	if len(r.text) > 0 && r.text[len(r.text)-1] == segment[0] {
		r.cut++
	}
	if segment[0] != segment[len(segment)-1] {
		r.joined++
	}
	r.text, r.last = append(r.text, segment...), segment
}

func (r *reader) Ended(now time.Time, _, _ netip.AddrPort) { r.ended = append(r.ended, now) }

// streamPair returns a network of two readers, at addrA and addrB.
func streamPair(t *testing.T, seed uint64, weather Weather) (n *Net, a, b *reader) {
	n, a, b = New(t, seed, weather), &reader{}, &reader{}
	n.Add(a, addrA)
	n.Add(b, addrB)
	return n, a, b
}

// pour writes 300 texts of growing size through bad weather, and returns them joined.
func pour(t *testing.T, seed uint64) (n *Net, sent []byte, b *reader) {
	n, _, b = streamPair(t, seed, Weather{Loss: 0.01, Duplication: 0.1, Latency: 20 * time.Millisecond,
		Jitter: 30 * time.Millisecond, MTU: 500})
	n.DialStream(addrA, addrB)
	for i := range 300 {
		text := bytes.Repeat([]byte{byte(i)}, 10*i+1)
		sent = append(sent, text...)
		n.WriteStream(addrA, addrB, text)
		n.Run(10 * time.Millisecond)
	}
	n.CloseStream(addrA, addrB)
	n.Run(time.Minute)
	return n, sent, b
}

func TestStreamKeepsEveryByteInOrder(t *testing.T) {
	n, sent, b := pour(t, 1)
	if !bytes.Equal(b.text, sent) || len(b.ended) != 1 {
		t.Fatalf("%d of %d bytes came, %d ends", len(b.text), len(sent), len(b.ended))
	}
	if b.cut < 10 || b.joined < 10 {
		t.Errorf("%d texts were cut and %d joined, want many", b.cut, b.joined)
	}
	if !bytes.Equal(b.last, bytes.Repeat([]byte{garbage}, len(b.last))) {
		t.Errorf("the last segment was left as it was: %x", b.last)
	}
	if again, _, _ := pour(t, 1); again.Digest() != n.Digest() {
		t.Error("the same seed gave another run")
	}
	if other, _, _ := pour(t, 2); other.Digest() == n.Digest() {
		t.Error("another seed gave the same run")
	}
}

func TestStreamTakesLatencyAndMoreWhereItLoses(t *testing.T) {
	n, _, b := streamPair(t, 1, Weather{Latency: 20 * time.Millisecond})
	n.DialStream(addrA, addrB)
	n.WriteStream(addrA, addrB, []byte("x"))
	if n.Run(19 * time.Millisecond); len(b.accepted) != 0 {
		t.Error("accepted before the latency")
	}
	if n.Run(time.Millisecond); string(b.text) != "x" || !slices.Equal(b.accepted, []netip.AddrPort{addrA}) {
		t.Errorf("%q from %v after the latency", b.text, b.accepted)
	}
	n.SetWeather(Weather{Loss: 1})
	n.WriteStream(addrA, addrB, []byte("y"))
	n.SetWeather(Weather{})
	n.WriteStream(addrA, addrB, []byte("z"))
	if n.Run(resendTime - 1); string(b.text) != "x" {
		t.Errorf("%q overtook what was lost", b.text)
	}
	if n.Run(time.Minute); string(b.text) != "xyz" {
		t.Errorf("%q arrived, want xyz", b.text)
	}
}

func TestStreamsAreRefused(t *testing.T) {
	n, a, b := streamPair(t, 1, Weather{Latency: time.Millisecond})
	b.refuses = true
	n.DialStream(addrA, addrB)
	n.WriteStream(addrA, addrB, []byte("hello?"))
	n.Run(time.Second)
	n.DialStream(addrA, addrC) // an address without a node
	n.Run(time.Second)
	if len(a.ended) != 2 || len(b.text) != 0 || len(b.ended) != 0 {
		t.Errorf("told %v; the one that refused read %q and was told %v", a.ended, b.text, b.ended)
	}
	b.refuses = false
	n.DialStream(addrA, addrB)
	n.WriteStream(addrB, addrA, []byte("hello"))
	if n.Run(time.Second); string(a.text) != "hello" {
		t.Errorf("%q came by the next stream between the same two", a.text)
	}
}

func TestWhoClosesAStreamHearsNoMore(t *testing.T) {
	n, a, b := streamPair(t, 1, Weather{Latency: time.Millisecond})
	n.DialStream(addrA, addrB)
	n.Run(time.Second)
	n.WriteStream(addrA, addrB, []byte("bye"))
	n.CloseStream(addrA, addrB)
	n.CloseStream(addrA, addrB)
	n.WriteStream(addrA, addrB, []byte("too late"))
	n.WriteStream(addrB, addrA, []byte("unheard"))
	n.Run(time.Second)
	if string(b.text) != "bye" || len(b.ended) != 1 || len(a.text) != 0 || len(a.ended) != 0 {
		t.Errorf("one read %q and was told %v, the other %q and %v", b.text, b.ended, a.text, a.ended)
	}
	if len(n.streams) != 0 {
		t.Errorf("%d directions are kept", len(n.streams))
	}
}
