package raknet

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestReliableNumbersStayNear: while the oldest message is missing, the numbers in flight stay within the limits of
// strict servers.
func TestReliableNumbersStayNear(t *testing.T) {
	for _, literal := range []bool{false, true} {
		var f flight
		f.flying = new(flying)
		f.Literal = literal
		room := maxAhead
		if literal {
			room = literalRoom
		}
		var refs []partRef
		for f.numbersLeft() > 0 {
			refs = append(refs, f.track(&outgoing{Mode: codec.ReliableOrdered, Parts: 1}, 0))
		}
		if len(refs) != room {
			t.Fatalf("literal %v: %d numbers assigned, want %d", literal, len(refs), room)
		}
		for _, r := range refs[1:] {
			f.drop(r)
		}
		if left := f.numbersLeft(); left != 0 {
			t.Errorf("literal %v: %d numbers left behind the oldest, want 0", literal, left)
		}
		if f.drop(refs[0]); f.numbersLeft() != room {
			t.Errorf("literal %v: %d numbers left of an empty flight, want %d", literal, f.numbersLeft(), room)
		}
	}
}

// TestMostParts checks that only our client side bounds the parts of a message.
func TestMostParts(t *testing.T) {
	for _, dialed := range []bool{false, true} {
		c := newConn(New(Options{}), time.Unix(1e9, 0), netip.MustParseAddrPort("127.0.0.1:1"), connected)
		c.dialed, c.longList = dialed, true
		c.setMTU(1492, 1492)
		part := c.sender.partSize()
		for _, test := range []struct {
			size int
			want error
		}{{500 * part, nil}, {500*part + 1, codec.ErrTooLarge}} {
			want := test.want
			if !dialed {
				want = nil
			}
			m := codec.Message{Payload: append([]byte{0x86}, make([]byte, test.size-1)...), Mode: codec.Reliable}
			if err := c.Send(c.start, m); !errors.Is(err, want) {
				t.Errorf("dialed %v: %d bytes: %v, want %v", dialed, test.size, err, want)
			}
		}
	}
}

// TestLongPassword checks that a client with a long password is refused before the application is asked.
func TestLongPassword(t *testing.T) {
	for _, test := range []struct {
		size int
		want []codec.EventKind
	}{{maxPassword, []codec.EventKind{codec.Asked}}, {maxPassword + 1, nil}} {
		c := newConn(New(Options{}), time.Unix(1e9, 0), netip.MustParseAddrPort("127.0.0.1:1"), halfOpen)
		c.setMTU(1492, 1492)
		request := connectionRequest{guid: 1, password: make([]byte, test.size)}
		err := c.handleServer(0, request.append(nil), 0)
		if got := codectest.Kinds(codectest.Drain(c)); len(got) != len(test.want) {
			t.Errorf("%d bytes: events %v, want %v", test.size, got, test.want)
		}
		if refused := c.phase == closing && errors.Is(err, codec.ErrLimit); refused != (test.want == nil) {
			t.Errorf("%d bytes: phase %v, %v", test.size, c.phase, err)
		}
	}
}
