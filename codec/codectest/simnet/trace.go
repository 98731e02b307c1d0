package simnet

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"net/netip"
	"time"
)

// traceLines is the number of last datagrams in a trace.
const traceLines = 40

// fateKind is the outcome for a datagram.
type fateKind uint8

const (
	arrives fateKind = iota
	lost
	tooLong
	overflowed
	injected
	unreachable
	streamed
)

var fateNames = [...]string{"arrives", "lost", "too long", "overflowed", "injected", "unreachable", "streamed"}

// fate is the outcome for a datagram, and its delay if it arrives.
type fate struct {
	kind  fateKind
	delay time.Duration
}

func (f fate) String() string {
	if f.kind == arrives || f.kind == injected || f.kind == streamed {
		return fmt.Sprintf("%s +%v", fateNames[f.kind], f.delay)
	}
	return fateNames[f.kind]
}

// traceLine is one datagram at one moment.
type traceLine struct {
	at       time.Duration
	from, to netip.AddrPort
	size     int
	fate     fate
}

func (l traceLine) String() string {
	return fmt.Sprintf("%12v %v -> %v %4d %v", l.at, l.from, l.to, l.size, l.fate)
}

// trace records the last datagrams, and a digest of all.
type trace struct {
	ring   [traceLines]traceLine
	count  int
	digest hash.Hash64
}

func newTrace() trace { return trace{digest: fnv.New64a()} }

func (t *trace) add(at time.Duration, from, to netip.AddrPort, datagram []byte, f fate) {
	t.ring[t.count%traceLines] = traceLine{at, from, to, len(datagram), f}
	t.count++
	var b [8 + 8 + 1]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(at))
	binary.LittleEndian.PutUint64(b[8:], uint64(f.delay))
	b[16] = byte(f.kind)
	t.digest.Write(b[:])
	t.digest.Write(datagram)
}

// lines returns the last datagrams, oldest first.
func (t *trace) lines() []string {
	first := max(t.count-traceLines, 0)
	lines := make([]string, 0, t.count-first)
	for i := first; i < t.count; i++ {
		lines = append(lines, t.ring[i%traceLines].String())
	}
	return lines
}

// Digest returns a hash over the content, time and fate of every datagram so far. Equal runs have equal digests.
func (n *Net) Digest() uint64 { return n.trace.digest.Sum64() }

// Trace returns the last datagrams, oldest first, each as "time from -> to length fate".
func (n *Net) Trace() []string { return n.trace.lines() }

func (n *Net) logTrace() {
	n.tb.Logf("simnet: seed %d (rerun with -seed=%d), %d datagrams; the last ones:", n.seed, n.seed, n.trace.count)
	for _, line := range n.Trace() {
		n.tb.Logf("%s", line)
	}
}
