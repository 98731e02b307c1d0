package rtype

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

const goodbyeHex = "596f752068617665206265656e20646973636f6e6e6563746564203a28"

// exampleMessages are canonical messages, one of each instruction. exampleNarrow are the same with 16-bit entities.
var (
	exampleMessages = []string{
		"00 00000007", "02 00000007 0000", "03 00000007 0000 deadbeef", "04 00000007 0000", "01 00000007",
	}
	exampleNarrow = []string{"00 0007", "02 0007 0000", "03 0007 0000 deadbeef", "04 0007 0000", "01 0007"}
)

func TestSniff(t *testing.T) {
	for _, c := range []struct {
		dialect  Dialect
		datagram string
		want     bool
	}{
		{Auto, startHex, true}, {Game16, startHex, true}, {Game32, startHex, true}, {Document, startHex, false},
		{Auto, "0b", true}, {Document, "00", true}, {Game16, "00", false}, {Game32, "0b", false},
		{Auto, "0c", false}, {Document, "0000", false}, {Auto, startHex + "00", false}, {Auto, "73746172", false},
		{Auto, "", false}, {Document, "", false}, {GameLast, "00", true}, {GameLast, "01", false},
		{GameLast, startHex, false},
	} {
		p := New(Options{Dialect: c.dialect})
		d := codectest.Unhex(t, c.datagram)
		conn, reply, err := p.Accept(start, address, d, nil)
		if p.Sniff(d) != c.want || (conn != nil) != c.want || len(reply) > 0 ||
			!c.want && !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s to %s: Sniff %v, want %v; Accept %v, %v", c.datagram, p.Spec().Name, p.Sniff(d), c.want, conn, err)
		}
	}
}

// TestHelloIsTheGames: the document has no hello, and New copies its options.
func TestHelloIsTheGames(t *testing.T) {
	o := Options{Hello: []byte("join"), Components: map[string]int{"Health": 1}}
	p := New(o)
	copy(o.Hello, "look")
	o.Components["Health"] = 9
	if !p.Sniff([]byte("join")) || p.Sniff([]byte("look")) || p.options.Components["Health"] != 1 {
		t.Error("options changed after New")
	}
	o.Dialect = Document
	if New(o).Sniff([]byte("look")) {
		t.Error("the document's dialect takes a hello")
	}
}

func TestRefuse(t *testing.T) {
	p := New(Options{})
	got := p.Refuse([]byte("start"), []byte("x"), codec.ServerFull)
	if !bytes.Equal(got, append([]byte("x"), goodbye...)) {
		t.Errorf("refused by %q", got)
	}
	if got := p.Refuse([]byte{2}, []byte("x"), codec.ServerFull); string(got) != "x" {
		t.Errorf("the document's client refused by %q, which has no word for it", got)
	}
}

// TestServerSpeaks checks the messages that a server's side sends and understands in each dialect.
func TestServerSpeaks(t *testing.T) {
	narrow := append(append([]string{}, exampleParts[Early]...), exampleNarrow...)
	wide := append(append([]string{}, exampleParts[Late]...), exampleMessages...)
	for _, c := range []struct {
		what     string
		options  Options
		opener   string
		announce string
		want     []string
	}{
		{"16", Options{Dialect: Game16}, startHex, announce8, narrow},
		{"32", Options{Dialect: Game32}, startHex, announce8, wide},
		{"16 late", Options{Dialect: Game16, Era: Late}, startHex, announce8,
			append(append([]string{}, exampleParts[Late]...), exampleNarrow...)},
		{"automatic, unknown", Options{}, startHex, announce8, wide},
		{"automatic, known", Options{}, startHex, "f00102" + names8, narrow},
		{"fixed, other announced", Options{Dialect: Game32}, startHex, "f00102" + names8, wide},
		{"document", Options{Dialect: Document}, "01", announce8,
			[]string{names8, "000007 0200070000 0300070000deadbeef 0400070000 010007"}},
		{"automatic, document", Options{}, "01", announce8,
			[]string{names8, "000007 0200070000 0300070000deadbeef 0400070000 010007"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.options.Components = worldSizes
			s := admitted(t, c.options, c.opener)
			send(t, s, start, c.announce)
			send(t, s, start, exampleMessages...)
			wantSent(t, s, start, c.want...)
			send(t, s, start, c.announce)
			wantSent(t, s, start) // known already
		})
	}
}

// TestWorldIsCounted: the memory of a world is in Stats, and Release frees it.
func TestWorldIsCounted(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32, Components: worldSizes}, startHex)
	send(t, s, start, announce8)
	send(t, s, start, exampleMessages...)
	before := s.Stats().Kept
	for e := range 100 {
		send(t, s, start, fmt.Sprintf("00%08x", 1000+e))
	}
	if kept := s.Stats().Kept; before == 0 || kept < before+100*slotCost/2 {
		t.Errorf("%d bytes are kept, and %d after 100 creates", before, kept)
	}
	s.Release()
	send(t, s, start, "0000000001")
	if kept := s.Stats().Kept; kept != 0 {
		t.Errorf("%d bytes are kept after Release", kept)
	}
}

// TestDocumentUpdateOfUnknownSize: an update of a component with an unknown size ends its datagram.
func TestDocumentUpdateOfUnknownSize(t *testing.T) {
	s := admitted(t, Options{Dialect: Document}, "01")
	send(t, s, start, "00 00000001", "03 00000001 0002 aabb", "00 00000002")
	wantSent(t, s, start, "000001 0300010002aabb", "000002")
}

// TestCoalescingIsBounded: the document's instructions share datagrams no larger than a client's buffer.
func TestCoalescingIsBounded(t *testing.T) {
	s := admitted(t, Options{Dialect: Document}, "01")
	send(t, s, start, "02 00000001 0000", "02 00000001 0000")
	for range 700 {
		send(t, s, start, "00 00000001")
	}
	var sizes []int
	for _, d := range codectest.Transmit(s, start) {
		sizes = append(sizes, len(d))
	}
	if !slices.Equal(sizes, []int{1024, 1023, 63}) {
		t.Errorf("datagrams of %d bytes", sizes)
	}
}

func TestServerHears(t *testing.T) {
	for _, c := range []struct {
		what    string
		options Options
		opener  string
		in      []string
		want    []string
	}{
		{"key that opened", Options{Dialect: Document}, "02", nil, []string{"02"}},
		{"keys of the document", Options{Dialect: Document}, "02", []string{"03 0b", "01"}, []string{"02", "03", "0b", "01"}},
		{"keys of the early game", Options{Dialect: Game16}, startHex, []string{"00", "0b"}, []string{"00", "0b"}},
		{"update 16", Options{Dialect: Game16}, startHex, []string{"03 0007 0001 aabb"}, []string{"03 00000007 0001 aabb"}},
		{"update 32", Options{Dialect: Game32}, startHex, []string{"03 00000007 0001"}, []string{"03 00000007 0001"}},
		{"not messages", Options{Dialect: Game32}, startHex, []string{"706f6e67", startHex}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			conn, _, err := New(c.options).Accept(start, address, codectest.Unhex(t, c.opener), nil)
			if err != nil {
				t.Fatal(err)
			}
			conn.Admit(start, 7)
			got := make([]string, 0)
			collect := func() {
				for _, e := range codectest.Drain(conn) {
					if e.Kind == codec.Received {
						got = append(got, string(e.Payload))
					}
				}
			}
			collect()
			for _, d := range c.in {
				receive(t, conn, start, d)
				collect()
			}
			if len(got) != len(c.want) {
				t.Fatalf("received %x, want %q", got, c.want)
			}
			for i, want := range c.want {
				if got[i] != string(codectest.Unhex(t, want)) {
					t.Errorf("received %x, want %s", got[i], want)
				}
			}
		})
	}
}

func TestServerDropsTheRest(t *testing.T) {
	for _, c := range []struct {
		options  Options
		opener   string
		datagram string
		want     error
		received []string
	}{
		{Options{Dialect: Document}, "00", "02 0c 03", errOpcode, []string{"02"}},
		{Options{Dialect: Document}, "00", "", errLength, nil},
		{Options{Dialect: Game16}, startHex, "0c", errOpcode, nil},
		{Options{Dialect: Game32}, startHex, "03", errOpcode, nil},
		{Options{Dialect: Game32}, startHex, "02", errOpcode, nil},          // of the last game
		{Options{Dialect: Game32}, startHex, "00 00000001", errOpcode, nil}, // clients create nothing
		{Options{Dialect: Game32}, startHex, "03 00000001", errLength, nil},
		{Options{Dialect: Game32}, startHex, "", errLength, nil},
		{Options{Dialect: Game32}, startHex, "03 00000001 0003 00", errComponent, nil},
		{Options{Dialect: Game32, Components: worldSizes}, startHex, "03 00000001 0000 000000", errLength, nil},
		{Options{Dialect: Game32, Components: worldSizes}, startHex, "03 00000001 0000 0000000000", errLength, nil},
	} {
		s := admitted(t, c.options, c.opener)
		send(t, s, start, announce8)
		if err := s.Receive(start, codectest.Unhex(t, c.datagram)); err != c.want {
			t.Errorf("%s: %v, want %v", c.datagram, err, c.want)
		}
		wantReceived(t, s, c.received...)
		if got := s.Stats().Dropped; got != 1 {
			t.Errorf("%s: %d dropped", c.datagram, got)
		}
	}
}

// TestUpdateBeforeTheNames: with known sizes no update passes before the names of components, since it may have any.
func TestUpdateBeforeTheNames(t *testing.T) {
	for known, want := range map[*map[string]int]error{&worldSizes: codec.ErrUnexpected, new(map[string]int): nil} {
		s := admitted(t, Options{Dialect: Game16, Components: *known}, startHex)
		if err := s.Receive(start, codectest.Unhex(t, "03 0001 0000 0d0e0f")); err != want {
			t.Errorf("%v: %v, want %v", *known, err, want)
		}
	}
}

func TestServerRefusesToSend(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		message string
		want    error
	}{
		{Game16, "00 00010000", codec.ErrTooLarge},
		{Document, "03 00010000 0000 00000000", codec.ErrTooLarge},
		{Document, "0a", codec.ErrMode},
		{Game32, "02 00000001 0003", codec.ErrMode}, // no such component
		{Game32, "03 00000001 0000 000000", codec.ErrMode},
		{Game32, "00 0001", codec.ErrMode},
		{Game32, "00 00000001 00", codec.ErrMode},
		{Game32, "10", codec.ErrMode},
		{Game32, "", codec.ErrMode},
		{Game32, "f0", codec.ErrMode},
		{Game32, "f00400 0000 08 ffff", codec.ErrMode},
		{Game32, "f00001 0000 08 ffff", codec.ErrMode},
		{Game32, "f00000 0000 08 ffff 00", codec.ErrMode},
	} {
		opener := startHex
		if c.dialect == Document {
			opener = "01"
		}
		s := admitted(t, Options{Dialect: c.dialect, Components: worldSizes}, opener)
		send(t, s, start, announce8)
		codectest.Transmit(s, start)
		if err := s.Send(start, codec.Message{Payload: codectest.Unhex(t, c.message)}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.message, err, c.want)
		}
		wantSent(t, s, start)
	}
	s := admitted(t, Options{Dialect: Document}, "01")
	names := bytes.Split(bytes.Repeat([]byte("a,"), 254), []byte(","))[:254]
	many := announcement{initial: initialisation{Names: names, Pad: 5}}
	if err := s.Send(start, codec.Message{Payload: many.append(nil)}); err != codec.ErrTooLarge {
		t.Errorf("initialisation larger than a client's buffer: %v", err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32, MaxQueued: 21}, startHex)
	send(t, s, start, "00 00000001", "00 00000002", "00 00000003")
	for _, m := range []string{"00 00000004", announce8} {
		if err := s.Send(start, codec.Message{Payload: codectest.Unhex(t, m)}); err != codec.ErrFull {
			t.Errorf("%s: %v, want %v", m, err, codec.ErrFull)
		}
	}
	if got := s.Stats().Queued; got != 21 {
		t.Errorf("%d bytes queued", got)
	}
	c := dialed(t, Options{Dialect: Game16, MaxQueued: 5})
	send(t, c, start, "00")
	if err := c.Send(start, codec.Message{Payload: []byte{0}}); err != codec.ErrFull {
		t.Errorf("key: %v, want %v", err, codec.ErrFull)
	}
}

// TestReceiptsAreLost: the protocol never reports whether a message arrived. A receipt is answered at once, and their
// number is bounded.
func TestReceiptsAreLost(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32}, startHex)
	m := codec.Message{Payload: codectest.Unhex(t, "00 00000001")}
	for m.Receipt = 1; m.Receipt <= maxReceipts; m.Receipt++ {
		if err := s.Send(start.Add(time.Duration(m.Receipt)*time.Microsecond), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Send(start, m); err != codec.ErrFull {
		t.Errorf("one receipt too many: %v", err)
	}
	if want := start.Add(answerDelay + time.Microsecond); !s.NextTimeout().Equal(want) {
		t.Errorf("next timeout %v, want %v", s.NextTimeout(), want)
	}
	s.Advance(s.NextTimeout())
	for i, e := range codectest.Drain(s) {
		if e.Kind != codec.Lost || e.Receipt != codec.Receipt(i+1) {
			t.Fatalf("event %+v, want Lost of %d", e, i+1)
		}
	}
	if err := s.Send(start, m); err != nil {
		t.Errorf("after Poll: %v", err)
	}
}

func TestInputIsLimited(t *testing.T) {
	const perSecond = 10
	for _, c := range []struct {
		options Options
		opener  string
		in      string
	}{{Options{Dialect: Game16}, startHex, "00"}, {Options{Dialect: Document}, "00", "00"}} {
		c.options.MaxRate = perSecond
		s := admitted(t, c.options, c.opener)
		now := start
		for _, step := range []struct {
			what string
			wait time.Duration
			want int // of 20 messages
		}{
			{"burst", 0, perSecond},
			{"at once again", 0, 0},
			{"too early", 99 * time.Millisecond, 0},
			{"one refilled", time.Millisecond, 1},
			{"all refilled", time.Minute / 4, perSecond},
		} {
			now = now.Add(step.wait)
			passed := 0
			for range 2 * perSecond {
				switch err := s.Receive(now, codectest.Unhex(t, c.in)); err {
				case nil:
					passed++
				case errRate:
				default:
					t.Fatal(err)
				}
				codectest.Drain(s)
			}
			if passed != step.want {
				t.Errorf("%s: %d messages passed, want %d", step.what, passed, step.want)
			}
		}
	}
}

// TestOutboxReclaims: the log does not grow with sent messages, even if it never runs empty.
func TestOutboxReclaims(t *testing.T) {
	for _, waiting := range []int{0, 3} {
		var o outbox
		put := func(i int) { o.end(append(o.begin(), bytes.Repeat([]byte{byte(i)}, 20)...), true) }
		for i := range waiting {
			put(i)
		}
		for i := range 10_000 {
			put(i + waiting)
			if d, ok := o.next(nil); !ok || len(d) != 20 || d[0] != byte(i) {
				t.Fatalf("message %d is %x", i, d)
			}
		}
		if want := waiting * (recordHead + 20); o.bytes() != want || cap(o.log) > 1000 {
			t.Errorf("%d bytes wait, want %d; the log has %d", o.bytes(), want, cap(o.log))
		}
	}
}
