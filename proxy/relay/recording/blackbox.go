package recording

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"tidegate/session"
)

// BlackBox keeps the last datagrams of a loop in memory of a fixed size: the newest ones replace the oldest ones. The
// loop writes, and readers are other goroutines. They hold the lock only for a few records at a time, so the loop
// never waits long.
//
// A record has a place, a number that only grows. The record lies in room at its place modulo the size of room. It is
// whole until the writer comes round to it. Two chains lead from a record to earlier ones: all records, and the
// records of clients with the same hash. So the datagrams of one client are found without a look at all the others.
type BlackBox struct {
	seed uint64

	mu     sync.Mutex
	room   []byte
	next   uint64   // place of the next record
	newest uint64   // place of the last record; 0: none
	heads  []uint64 // place of the last record of clients with a hash; 0: none
}

// bytesPerHead is the size in bytes of the room for each hash of clients.
const bytesPerHead = 4096

// NewBlackBox returns a black box that uses size bytes, at least 1 MiB.
func NewBlackBox(size int) *BlackBox {
	heads := 1
	for heads*2*bytesPerHead <= size {
		heads *= 2
	}
	room := (size - 8*heads) &^ 7
	return &BlackBox{seed: rand.Uint64(), room: make([]byte, room), next: uint64(room), heads: make([]uint64, heads)}
}

// A record begins with a head of a fixed size. Its fields, by offset. An address takes 16 bytes and a port 2.
const (
	headTime    = 0
	headSession = 8
	headBefore  = 16 // place of the record before it; 0: none
	headEarlier = 24 // place of the record before it with the same hash of the client; 0: none
	headSize    = 32 // of the datagram
	headFlags   = 36
	headFrom    = 38
	headTo      = 56
	headClient  = 74
	headLength  = Overhead
)

// Overhead is the memory in bytes that a recorded datagram takes beyond its own.
const Overhead = 96

// Flags of a record.
const (
	flagUpstream = 1 << iota
	flagSent
	flagStream
)

// Put records a datagram of a client, after the prefix that stands before it on the wire.
func (b *BlackBox) Put(c *Captured, client netip.AddrPort, prefix, datagram []byte) {
	size := len(prefix) + len(datagram)
	whole := uint64(headLength+size+7) &^ 7
	room := uint64(len(b.room))
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.next % room; at+whole > room {
		b.next += room - at // a record is never in two parts
	}
	place := b.next
	b.next += whole
	record := b.room[place%room:][:headLength+size]
	putAddr(record[headFrom:], c.From)
	putAddr(record[headTo:], c.To)
	putAddr(record[headClient:], client)
	head := &b.heads[b.hash(record[headClient:headClient+addrLength])]
	le := binary.LittleEndian
	le.PutUint64(record[headTime:], uint64(c.At.UnixNano()))
	le.PutUint64(record[headSession:], uint64(c.Session))
	le.PutUint64(record[headBefore:], b.newest)
	le.PutUint64(record[headEarlier:], *head)
	le.PutUint32(record[headSize:], uint32(size))
	record[headFlags] = flagIf(c.Upstream, flagUpstream) | flagIf(c.Sent, flagSent) | flagIf(c.Stream, flagStream)
	copy(record[headLength+copy(record[headLength:], prefix):], datagram)
	b.newest, *head = place, place
}

func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// addrLength is the size of an address in a record.
const addrLength = 18

func putAddr(b []byte, a netip.AddrPort) {
	ip := a.Addr().As16()
	copy(b, ip[:])
	binary.LittleEndian.PutUint16(b[16:], a.Port())
}

func addrAt(b []byte) netip.AddrPort {
	ip := netip.AddrFrom16([16]byte(b)).Unmap()
	return netip.AddrPortFrom(ip, binary.LittleEndian.Uint16(b[16:]))
}

// hash returns the index of a client's head.
func (b *BlackBox) hash(client []byte) uint64 {
	return xxh3.HashSeed(client, b.seed) & uint64(len(b.heads)-1)
}

// whole reports whether the record at a place is not overwritten yet.
func (b *BlackBox) whole(place uint64) bool { return place > 0 && b.next <= place+uint64(len(b.room)) }

// recorded has the facts about a record by which readers choose it.
type recorded struct {
	place   uint64
	at      time.Time
	session session.ID
	client  netip.AddrPort
}

// slice is the number of records that a reader looks at while it holds the lock.
const slice = 256

// find gives visit the records that are not older than since, the newest first, until visit returns false. If client
// is valid, find visits only the records of this client.
func (b *BlackBox) find(since time.Time, client netip.AddrPort, visit func(recorded) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, chain := b.newest, headBefore
	if client.IsValid() {
		var key [addrLength]byte
		putAddr(key[:], client)
		place, chain = b.heads[b.hash(key[:])], headEarlier
		client = addrAt(key[:])
	}
	for n := 1; b.whole(place); n++ {
		head := b.room[place%uint64(len(b.room)):][:headLength]
		found := recorded{
			place: place, at: time.Unix(0, int64(binary.LittleEndian.Uint64(head[headTime:]))),
			session: session.ID(binary.LittleEndian.Uint64(head[headSession:])), client: addrAt(head[headClient:]),
		}
		if found.at.Before(since) {
			return
		}
		if (!client.IsValid() || found.client == client) && !visit(found) {
			return
		}
		place = binary.LittleEndian.Uint64(head[chain:])
		if n%slice == 0 {
			b.yield()
		}
	}
}

// yield lets a loop that waits for the lock have it. Without Gosched the reader would often be first again.
func (b *BlackBox) yield() {
	b.mu.Unlock()
	runtime.Gosched()
	b.mu.Lock()
}

// read appends the record at a place to a batch. It reports false if the record is overwritten.
func (b *BlackBox) read(place uint64, into *Batch) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.whole(place) {
		return false
	}
	record := b.room[place%uint64(len(b.room)):]
	le := binary.LittleEndian
	flags := record[headFlags]
	into.add(&Captured{
		At: time.Unix(0, int64(le.Uint64(record[headTime:]))), From: addrAt(record[headFrom:]), To: addrAt(record[headTo:]),
		Upstream: flags&flagUpstream != 0, Sent: flags&flagSent != 0, Stream: flags&flagStream != 0,
		Session: session.ID(le.Uint64(record[headSession:])),
	}, nil, record[headLength:][:le.Uint32(record[headSize:])])
	return true
}
