package rtype

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestClientHears: a client's side understands each dialect, and finds out its facts by itself.
func TestClientHears(t *testing.T) {
	earlyParts, lateParts := exampleParts[Early], exampleParts[Late]
	join := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for _, c := range []struct {
		what    string
		dialect Dialect
		in      []string
		want    []string
	}{
		{"16", Game16, join(earlyParts, exampleNarrow), join([]string{"f00102" + names8}, exampleMessages)},
		{"32", Game32, join(lateParts, exampleMessages), join([]string{"f00204" + names8}, exampleMessages)},
		{"automatic, 16", Auto, join(earlyParts, exampleNarrow),
			join([]string{"f00100" + names8, "f00102" + names8}, exampleMessages)},
		{"automatic, 32", Auto, join(lateParts, exampleMessages),
			join([]string{"f00200" + names8, "f00204" + names8}, exampleMessages)},
		{"automatic, document", Auto, []string{names8 + "000007", "0200070000 0300070000deadbeef 0400070000 010007"},
			join([]string{"f00102" + names8}, exampleMessages)},
		{"document", Document, []string{names8, "000007 0200070000 0300070000deadbeef 0400070000 010007"},
			join([]string{"f00102" + names8}, exampleMessages)},
		{"next frame", Game32, join(lateParts, []string{"0a"}), []string{"f00204" + names8, "0a"}},
		{"no initialisation", Game32, exampleMessages, exampleMessages},
		{"document without initialisation", Document, []string{"000007 010007"}, []string{"0000000007", "0100000007"}},
		{"instructions overtake the initialisation", Auto, []string{"0003", "0800", "00 00000007"},
			[]string{"00 00000007"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			conn := dialed(t, Options{Dialect: c.dialect, Components: worldSizes})
			var got []codec.Event
			for _, d := range c.in {
				receive(t, conn, start, d)
				got = append(got, codectest.Drain(conn)...)
			}
			if len(got) != len(c.want)+1 || got[0].Kind != codec.Connected {
				t.Fatalf("%d events %+v, want Connected and %d", len(got), got, len(c.want))
			}
			for i, want := range c.want {
				if e := got[i+1]; e.Kind != codec.Received || string(e.Payload) != string(codectest.Unhex(t, want)) {
					t.Errorf("event %d: %v %x, want %s", i+1, e.Kind, e.Payload, want)
				}
			}
		})
	}
}

func TestClientDropsTheRest(t *testing.T) {
	for _, c := range []struct {
		what, datagram string
		dialect        Dialect
		want           error
		received       []string
	}{
		{"opcode", "05 00000001", Game32, errOpcode, nil},
		{"torn", "00 0001", Game32, errLength, nil},
		{"two in one", "00 00000001 00 00000002", Game32, errLength, nil},
		{"component", "02 00000001 0003", Game32, errComponent, nil},
		{"size", "03 00000001 0002 0000", Game32, errLength, nil},
		{"torn at the end", "000001 0100", Document, errLength, []string{"00 00000001"}},
		{"opcode in between", "000001 0a 000002", Document, errOpcode, []string{"00 00000001"}},
		{"update tells no width", "03 0001 0002 aa", Auto, errWidth, nil},
		{"no width at all", "00 000001", Auto, errWidth, nil},
		{"empty", "", Auto, errLength, nil},
		{"empty for the document", "", Document, errLength, nil},
	} {
		conn := dialed(t, Options{Dialect: c.dialect, Components: map[string]int{"Health": 1}})
		if c.dialect == Document {
			receive(t, conn, start, names8)
		} else {
			receive(t, conn, start, exampleParts[Late]...)
		}
		codectest.Drain(conn)
		if err := conn.Receive(start, codectest.Unhex(t, c.datagram)); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		wantReceived(t, conn, c.received...)
	}
}

// TestRepeatedInitialisation: early servers send their initialisation again after each message of a client. No part of
// it is taken for an instruction, though some could be by their lengths.
func TestRepeatedInitialisation(t *testing.T) {
	for _, parts := range [][]string{
		{"0002", "0a", "00 4870", "01 4149"},             // Hp could be entity 4870
		{"0002", "0a00", "0000 417265", "0100 4172656e"}, // Are could be entity 417265 in 32 bits
	} {
		c := dialed(t, Options{})
		receive(t, c, start, parts...)
		codectest.Drain(c)
		for _, d := range parts {
			if err := c.Receive(start, codectest.Unhex(t, d)); err != codec.ErrDuplicate {
				t.Errorf("%s: %v", d, err)
			}
		}
		wantReceived(t, c)
		for _, d := range []string{"0003", "08", "0900"} {
			if err := c.Receive(start, codectest.Unhex(t, d)); err == nil || err == codec.ErrDuplicate {
				t.Errorf("%s: %v", d, err)
			}
		}
		receive(t, c, start, "00 00000007")
	}
	c := dialed(t, Options{})
	receive(t, c, start, "0001", "0a00", "0000 41")
	codectest.Drain(c)
	receive(t, c, start, "0a") // the next frame of a late server, not the length of early ones
	wantReceived(t, c, "0a")
}

// TestOnlyMeaningConnects: a meaningless datagram does not start a session.
func TestOnlyMeaningConnects(t *testing.T) {
	c := dialed(t, Options{})
	for _, d := range []string{"", "00", "fffefd", "05 00000001", "03 0001 0002"} {
		if err := c.Receive(start, codectest.Unhex(t, d)); err == nil {
			t.Errorf("%s taken", d)
		}
	}
	if got := codectest.Drain(c); len(got) != 0 {
		t.Errorf("events %+v", got)
	}
	receive(t, c, start, pingHex)
	if got := wantReceived(t, c); len(got) != 1 || got[0] != codec.Connected {
		t.Errorf("events %v", got)
	}
	wantSent(t, c, start, pongHex)
}

func TestClientSpeaks(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		era     Era
		message string
		want    string
		err     error
	}{
		{Document, AnyEra, "0b", "0b", nil},
		{Document, AnyEra, "0c", "", codec.ErrMode},
		{Document, AnyEra, "03 00000001 0000 aa", "", codec.ErrMode},
		{Game16, AnyEra, "02", "02", nil},
		{Game16, Late, "02", "", codec.ErrMode},
		{Game16, AnyEra, "03 00000001 0000 aa", "03 0001 0000 aa", nil},
		{Game16, AnyEra, "03 00010000 0000 aa", "", codec.ErrTooLarge},
		{Game32, AnyEra, "02", "", codec.ErrMode},
		{Game32, Early, "02", "02", nil},
		{Game32, AnyEra, "03 00000001 0000 aa", "03 00000001 0000 aa", nil},
		{Game32, AnyEra, "00 00000001", "", codec.ErrMode},
		{Game32, AnyEra, announce8, "", codec.ErrMode},
		{Game32, AnyEra, "", "", codec.ErrMode},
		{Auto, AnyEra, "02", "02", nil},
		{Auto, AnyEra, "12", "", codec.ErrMode},
	} {
		conn := dialed(t, Options{Dialect: c.dialect, Era: c.era})
		err := conn.Send(start, codec.Message{Payload: codectest.Unhex(t, c.message)})
		if !errors.Is(err, c.err) {
			t.Errorf("dialect %d: %s: %v, want %v", c.dialect, c.message, err, c.err)
		}
		wantSent(t, conn, start) // not before there is a session
		receive(t, conn, start, pingHex)
		want := []string{pongHex}
		if c.err == nil {
			want = append(want, c.want)
		}
		wantSent(t, conn, start, want...)
	}
}

// TestUpdatesWaitForTheWidth: before the server's first instruction an automatic client does not know the width of
// entities. A guess could name another entity.
func TestUpdatesWaitForTheWidth(t *testing.T) {
	c := dialed(t, Options{})
	receive(t, c, start, exampleParts[Late]...)
	update := codec.Message{Payload: codectest.Unhex(t, "03 00000007 0000 deadbeef")}
	if err := c.Send(start, update); !errors.Is(err, codec.ErrFull) {
		t.Fatalf("Send before an instruction: %v, want ErrFull", err)
	}
	codectest.Drain(c)
	codectest.Transmit(c, start)
	receive(t, c, start, "00 00000007")
	codectest.Drain(c)
	if err := c.Send(start, update); err != nil {
		t.Fatal(err)
	}
	wantSent(t, c, start, "03 00000007 0000 deadbeef")
}

// TestUpdateStartsTheFirstGame: the first game's server only plays a frame when it hears a client. So an update crosses
// before the server's first instruction.
func TestUpdateStartsTheFirstGame(t *testing.T) {
	s := admitted(t, Options{Seed: [32]byte{1}}, startHex)
	send(t, s, start, "f00100"+names8) // what the client of an early server reports
	codectest.Transmit(s, start)
	receive(t, s, start, "03 0007 0000 deadbeef")
	wantReceived(t, s, "03 00000007 0000 deadbeef")
	c := dialed(t, Options{})
	receive(t, c, start, exampleParts[Early]...)
	codectest.Drain(c)
	send(t, c, start, "03 00000007 0000 deadbeef")
	wantSent(t, c, start, "03 0007 0000 deadbeef")
}

// TestInstructionsBeforeNames: a server of the last game sends its running game to everybody who has spoken, and its
// names only to a client that says 00. So the client says 00 too, and does so first the next time.
func TestInstructionsBeforeNames(t *testing.T) {
	p := New(Options{})
	c := p.Dial(start, address, codec.Hello{}).(*client)
	wantSent(t, c, start, startHex)
	for _, d := range []string{"00 07000000", "02 07000000 0000", "0a"} {
		if err := c.Receive(start, codectest.Unhex(t, d)); (err == nil) != (d == "0a") || errors.Is(err, codec.ErrNoNames) {
			t.Errorf("%s gives %v", d, err) // a frame shows that the server is there
		}
	}
	wantReceived(t, c)
	walk(t, c, []step{{time.Second, []string{"00"}}})
	receive(t, c, start, lobbyParts...)
	receive(t, c, start, "060003")
	wantSent(t, c, start, "02")
	wantSent(t, p.Dial(start, address, codec.Hello{}), start, "00")
	wantSent(t, p.Dial(start, netip.MustParseAddrPort("192.0.2.77:1"), codec.Hello{}), start, startHex)

	c = p.Dial(start, netip.MustParseAddrPort("192.0.2.78:1"), codec.Hello{}).(*client)
	var last error
	for c.state != closed {
		codectest.Transmit(c, start)
		last = c.Receive(start, codectest.Unhex(t, "0a"))
		c.Advance(c.NextTimeout())
	}
	wantEnd(t, c, codec.Incompatible)
	if !errors.Is(last, codec.ErrNoNames) || c.Stats().Received != 1 {
		t.Errorf("the last one gives %v; %d are taken", last, c.Stats().Received)
	}
}

// TestManyLastServers: the memory of servers is bounded.
func TestManyLastServers(t *testing.T) {
	l := new(lastServers)
	for i := range 3 * maxServers {
		l.note(netip.AddrPortFrom(address.Addr(), uint16(1+i)), true)
		if n := len(*l.set.Load()); n > maxServers {
			t.Fatalf("%d servers are remembered", n)
		}
	}
	l.note(netip.AddrPortFrom(address.Addr(), 3*maxServers), false)
	if l.has(netip.AddrPortFrom(address.Addr(), 3*maxServers)) {
		t.Error("a server of another game is remembered as one of the last")
	}
}

// TestSilenceWithoutFrames: a server that ended frames and falls silent is lost soon, for a client that is kept then.
// Another client waits as long as the game's own.
func TestSilenceWithoutFrames(t *testing.T) {
	for _, test := range []struct {
		held, frames bool
		want         time.Duration
	}{{true, true, frameTimeout}, {true, false, defaultServerTimeout}, {false, true, defaultServerTimeout}} {
		c := New(Options{}).Dial(start, address, codec.Hello{Held: test.held}).(*client)
		receive(t, c, start, exampleParts[Late]...)
		if test.frames {
			receive(t, c, start, "0a")
		}
		if got := c.NextTimeout().Sub(start); got != test.want {
			t.Errorf("%+v: lost after %v", test, got)
		}
	}
}
