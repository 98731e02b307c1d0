package protocols_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/codec/explain"
	"tidegate/internal/protocols"
)

// explained names the protocols whose datagrams another one's Explain explains.
var explained = map[string]string{"bedrock": "raknet"}

// describerOf begins to explain a conversation of a protocol.
func describerOf(t testing.TB, name string) explain.Conversation {
	d := protocols.Find(name)
	if d.Explain == nil {
		d = protocols.Find(explained[name])
	}
	if d == nil || d.Explain == nil {
		t.Fatalf("no Explain explains %s", name)
	}
	return d.Explain(nil)
}

var (
	talkServer = netip.MustParseAddrPort("198.51.100.1:7777")
	talkClient = netip.MustParseAddrPort("192.0.2.1:40000")
)

const (
	talkOps   = 300  // of a conversation
	talkLine  = 64   // datagrams under way in one direction
	talkLarge = 5000 // bytes of a large message
)

// talk is a conversation of two connections of our own. The fuzzer says which datagrams arrive, alters some of them,
// and adds captured ones. Two describers listen. One hears what the connections accept, and must understand it. The
// other hears everything, and must not fail.
type talk struct {
	t              testing.TB
	now            time.Time
	name           string
	protocol       codec.Protocol
	client, server codec.Conn
	lines          [2][][]byte // to the client, to the server
	wise, patient  explain.Conversation
	raw            []byte // captured datagrams that are left, each after its length
	accepted       int
	altered        bool // a side may have learned from a datagram that the other did not send
}

func newTalk(t testing.TB, s codectest.Subject, raw []byte) *talk {
	server, client := s.New()
	k := &talk{
		t: t, now: time.Unix(1_700_000_000, 0), name: s.Name, protocol: server, raw: raw,
		wise: describerOf(t, s.Name), patient: describerOf(t, s.Name),
	}
	k.client = client.Dial(k.now, talkServer, codec.Hello{Identity: 7})
	return k
}

// play runs the operations of an input.
func (k *talk) play(ops []byte) {
	for n := 0; len(ops) > 0 && n < talkOps; n++ {
		op := ops[0]
		ops = ops[1:]
		up := int(op >> 3 & 1)
		switch op & 7 {
		case 0, 1, 2:
			k.deliver(1, nil)
		case 3, 4:
			k.deliver(0, nil)
		case 5:
			k.send(up, op)
		case 6:
			if change := ops[:min(len(ops), 4)]; op&0x80 == 0 {
				k.deliver(up, change)
				ops = ops[len(change):]
			} else {
				k.inject(up)
			}
		case 7:
			k.now = k.now.Add(time.Duration(op>>3) * 20 * time.Millisecond)
			k.settle(k.client)
			k.settle(k.server)
		}
	}
}

// settle advances a connection, and drains it.
func (k *talk) settle(c codec.Conn) {
	if c == nil {
		return
	}
	if due := c.NextTimeout(); !due.IsZero() && !due.After(k.now) {
		c.Advance(k.now)
	}
	k.drain(c)
}

// drain handles a connection's events, and puts its datagrams under way.
func (k *talk) drain(c codec.Conn) {
	for e, ok := c.Poll(); ok; e, ok = c.Poll() {
		if e.Kind == codec.Asked {
			c.Admit(k.now, 3)
		}
	}
	way := 0
	if c == k.client {
		way = 1
	}
	for b, ok := c.Transmit(k.now, nil); ok; b, ok = c.Transmit(k.now, nil) {
		if len(k.lines[way]) < talkLine {
			k.lines[way] = append(k.lines[way], b)
		}
	}
}

// deliver gives the next datagram of a direction to its receiver, with up to two bytes changed.
func (k *talk) deliver(way int, change []byte) {
	k.drain(k.client)
	if k.server != nil {
		k.drain(k.server)
	}
	if len(k.lines[way]) == 0 {
		return
	}
	b := k.lines[way][0]
	k.lines[way] = k.lines[way][1:]
	altered := len(change) >= 2
	for ; len(change) >= 2; change = change[2:] {
		b[int(change[0])%len(b)] ^= change[1]
	}
	k.receive(way, b, altered)
}

// inject gives a receiver a captured datagram.
func (k *talk) inject(way int) {
	if len(k.raw) < 2 {
		return
	}
	n := min(int(binary.BigEndian.Uint16(k.raw)), len(k.raw)-2, codec.MaxDatagram)
	b := bytes.Clone(k.raw[2 : 2+n])
	if k.raw = k.raw[2+n:]; n > 0 {
		k.receive(way, b, true)
	}
}

// receive gives a datagram to a connection and to the describers.
func (k *talk) receive(way int, b []byte, altered bool) {
	heard := bytes.Clone(b)
	_, _, _ = k.patient(way == 0, heard) // it must not panic
	// R-Type's two sides learn their dialect from what they hear, even from the start of a malformed datagram.
	learns := k.protocol.Spec().Closed
	differ := k.altered && learns
	took := k.takes(way, b)
	k.altered = k.altered || altered && (took || learns)
	if !took || differ {
		return
	}
	k.accepted++
	text, content, err := k.wise(way == 0, heard)
	unusual := k.altered && errors.Is(err, explain.ErrUnusual) // as no honest peer sends it
	const update = 3                                           // R-Type's opcode
	if learns && way != 0 && heard[0] == update && errors.Is(err, codec.ErrUnexpected) {
		return // a player's update in the first game, before its server has shown how wide entities are
	}
	if err != nil && !unusual || strings.TrimSpace(text+strings.Join(content, "")) == "" {
		k.t.Fatalf("%s: the codec takes %x, from the server: %t; Describe says %q %q, %v", k.name, heard, way == 0, text,
			content, err)
	}
}

// takes reports whether a connection takes a datagram, as it is.
func (k *talk) takes(way int, b []byte) bool {
	switch {
	case way == 0:
		err := k.client.Receive(k.now, b)
		k.drain(k.client)
		return err == nil
	case k.server != nil:
		err := k.server.Receive(k.now, b)
		k.drain(k.server)
		return err == nil
	case !k.protocol.Sniff(b):
		return false
	}
	conn, reply, err := k.protocol.Accept(k.now, talkClient, b, nil)
	if k.server = conn; conn != nil {
		k.drain(conn)
	}
	if len(reply) > 0 && len(k.lines[0]) < talkLine {
		k.lines[0] = append(k.lines[0], reply)
	}
	return err == nil && (conn != nil || len(reply) > 0)
}

// send sends a message, if the protocol takes it.
func (k *talk) send(way int, op byte) {
	from := k.client
	if way == 0 {
		from = k.server
	}
	if from == nil {
		return
	}
	size := 1 + int(op>>4)*3
	if op>>4 == 15 {
		size = talkLarge
	}
	spec := k.protocol.Spec()
	for mode := codec.Unreliable; mode <= codec.Notify; mode++ {
		m := codec.Message{Mode: mode, Payload: bytes.Repeat([]byte{0x90}, size), HasID: spec.IDs == codec.IDBeside, ID: 7}
		if mode == codec.Notify {
			m.HasID, m.ID, m.Receipt = false, 0, 1
		}
		if spec.Modes.Has(mode) && mode%3 == codec.Mode(op>>4)%3 {
			_ = from.Send(k.now, m) // a refused message is not sent
		}
	}
	k.drain(from)
}

// talkSeeds are operations of calm, busy and disturbed conversations.
func talkSeeds() (all [][]byte) {
	calm := bytes.Repeat([]byte{0, 3, 0x2f}, 30)
	busy := append(bytes.Clone(calm), bytes.Repeat([]byte{0x0d, 0x15, 0x2d, 0x35, 0xf5, 0xfd, 0, 0, 3, 3, 0x17}, 15)...)
	altered := append(bytes.Clone(calm),
		bytes.Repeat([]byte{0x1d, 0x25, 0x0e, 3, 1, 5, 0x80, 0x06, 9, 2, 0, 1, 0, 3, 0x17}, 12)...)
	captured := bytes.Repeat([]byte{0x8e, 0, 3, 0x86, 0x17}, 40)
	return [][]byte{calm, busy, altered, captured, append(bytes.Clone(busy), captured...)}
}

// FuzzDescribe checks that decode's describers and the codecs agree, for every protocol: a describer reads each
// datagram that a connection takes.
func FuzzDescribe(f *testing.F) {
	all := subjects()
	taped := make(map[string][]byte)
	for _, c := range captures(f) {
		if tape := taped[c.Protocol]; len(tape) < 8<<10 {
			for _, l := range c.Lines[:min(len(c.Lines), 40)] {
				tape = append(binary.BigEndian.AppendUint16(tape, uint16(len(l.Datagram))), l.Datagram...)
			}
			taped[c.Protocol] = tape
		}
	}
	for i, s := range all {
		for _, ops := range talkSeeds() {
			f.Add(uint8(i), ops, taped[s.Name])
			f.Add(uint8(i), ops, taped[explained[s.Name]])
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, ops, raw []byte) {
		k := newTalk(t, all[int(which)%len(all)], raw)
		k.play(ops)
	})
}

// TestDescribersHearMuch checks that the conversations of FuzzDescribe come to something: each protocol's two sides
// connect and talk.
func TestDescribersHearMuch(t *testing.T) {
	for _, s := range subjects() {
		k := newTalk(t, s, nil)
		k.play(talkSeeds()[1])
		if k.accepted < 4 || k.accepted < 15 && !k.protocol.Spec().Closed { // ours is no word of a game
			t.Errorf("%s: only %d datagrams were accepted", s.Name, k.accepted)
		}
	}
}
