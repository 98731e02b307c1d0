package nethernet

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// record is a DTLS record.
var record = []byte{23, 0xfe, 0xfd}

func peer(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(n)}), uint16(n))
}

// request has an ID of its own for each n.
func request(n int, nominates bool) *Binding {
	return &Binding{Class: Request, ID: TransactionID{1, byte(n >> 8), byte(n)}, Nominates: nominates}
}

// response is the server's answer to that request.
func response(n int) []byte {
	return NewIntegrity().AppendSuccess(nil, request(n, false).ID, peer(99), serverPwd)
}

// TestSourcesOfAJoin checks from two addresses, as a client with Wi-Fi and mobile data does.
func TestSourcesOfAJoin(t *testing.T) {
	var s Sources
	if s.Active().IsValid() || s.Heard(at(0), peer(1), record) {
		t.Error("a source without a request")
	}
	for i, n := range []int{1, 2, 1} {
		if err := s.Request(at(i), peer(n), request(i, false)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Active() != peer(1) || s.To(response(1)) != peer(2) || s.To(response(2)) != peer(1) {
		t.Errorf("active %v, responses to %v and %v", s.Active(), s.To(response(1)), s.To(response(2)))
	}
	check := NewIntegrity().AppendCheck(nil, Check{To: "to", From: "from"}, serverPwd)
	if !s.Heard(at(5), peer(1), check) || !s.Heard(at(5), peer(2), nil) { // neither shows that the client is reached
		t.Error("not sources")
	}
	if err := s.Request(at(10), peer(2), request(3, true)); err != nil || s.Active() != peer(2) {
		t.Errorf("nominated: %v, active %v", err, s.Active())
	}
	if !s.Heard(at(20), peer(1), record) || s.Active() != peer(2) {
		t.Error("data of the other source moved the session")
	}
	if s.To(unhex(t, firstCheck)) != peer(2) || s.To([]byte{22}) != peer(2) || s.To(response(77)) != peer(2) {
		t.Error("the server's own datagrams do not go to the active source")
	}
	all := s.Append(nil)
	if len(all) != 2 || all[0] != peer(2) || all[1] != peer(1) {
		t.Error(all)
	}
	again := RestoreSources(at(30), append(all, all[0], netip.AddrPort{}), s.Asked(nil))
	if again.Active() != peer(2) || !again.Heard(at(40), peer(1), record) || again.Heard(at(40), peer(3), record) ||
		len(again.Append(nil)) != 2 {
		t.Error(again.Append(nil))
	}
	many := RestoreSources(at(30), make([]netip.AddrPort, 100), make([]uint32, 100))
	if many.Active().IsValid() {
		t.Error(many.Append(nil))
	}
}

// TestFormerAddress forges the address that a client had before a NAT changed. It gets the server's datagrams for as
// long only as it may still be the client's.
func TestFormerAddress(t *testing.T) {
	var s Sources
	ask := func(seconds, from, id int) {
		t.Helper()
		b := Binding{ID: TransactionID{0, 0, byte(id)}}
		if err := s.Request(at(1000*seconds), peer(from), &b); err != nil {
			t.Fatal(err)
		}
	}
	ask(0, 1, 1)
	s.Heard(at(100), peer(1), record)
	ask(4, 2, 2) // the NAT has changed
	s.Heard(at(6000), peer(1), record)
	if s.Active() != peer(1) {
		t.Error("an address that was the client's a moment ago does not get its place")
	}
	ask(7, 2, 3)
	if s.Active() != peer(2) {
		t.Error("an address without checks keeps its place")
	}
	s.Heard(at(9000), peer(1), record)
	if s.Active() != peer(2) {
		t.Error("an address that the client has left gets its place")
	}
}

// TestFormerAddressBesideTheClient forges data of the former address all the time. The client's new address gets its
// place with the first data, and keeps it. An address that the client had before gets no place by data.
func TestFormerAddressBesideTheClient(t *testing.T) {
	var s Sources
	_ = s.Request(at(0), peer(1), request(1, true))
	_ = s.Request(at(0), peer(3), request(2, false))
	s.Heard(at(2400), peer(1), record)
	_ = s.Request(at(2500), peer(3), request(3, false))
	s.Heard(at(2510), peer(3), record)
	_ = s.Request(at(2520), peer(2), request(4, false))
	s.Heard(at(2530), peer(1), record)
	if s.Active() != peer(1) {
		t.Errorf("%v is active without data, or by data of an address that the client had before", s.Active())
	}
	s.Heard(at(2540), peer(2), record)
	s.Heard(at(2550), peer(1), record)
	if s.Active() != peer(2) {
		t.Errorf("%v is active, want the new address", s.Active())
	}
}

// TestNominatedButNotReached nominates an address that the server's datagrams do not reach. Another one that they reach
// stays active, until it is silent or the first one answers.
func TestNominatedButNotReached(t *testing.T) {
	for name, answer := range map[string][]byte{"DTLS": record, "a response": response(99)} {
		var s Sources
		_ = s.Request(at(0), peer(1), request(1, true))
		_ = s.Request(at(1), peer(2), request(2, true)) // nothing is known of either
		if s.Active() != peer(2) {
			t.Error(name, s.Active())
		}
		s.Heard(at(2), peer(1), answer)
		_ = s.Request(at(3), peer(1), request(3, true))
		_ = s.Request(at(4), peer(2), request(4, true))
		if s.Active() != peer(1) {
			t.Errorf("%s: an address that is not reached is active", name)
		}
		s.Heard(at(5), peer(2), answer)
		if s.Active() != peer(1) {
			t.Errorf("%s: moved without a nomination", name)
		}
		_ = s.Request(at(6), peer(2), request(5, true))
		if s.Active() != peer(2) {
			t.Errorf("%s: the client's own choice does not count", name)
		}
		_ = s.Request(at(6+1500), peer(1), request(6, false))
		if s.Active() != peer(1) {
			t.Errorf("%s: a silent address is active", name)
		}
	}
}

// TestNATRebinding gives the client another port in mid-game, before and after its next check.
func TestNATRebinding(t *testing.T) {
	var s Sources
	_ = s.Request(at(0), peer(1), request(1, true))
	for ms := 0; ms <= 1000; ms += 50 {
		s.Heard(at(ms), peer(1), record)
	}
	if s.Heard(at(1050), peer(2), record) {
		t.Fatal("an address that has not checked is a source")
	}
	_ = s.Request(at(1100), peer(2), request(2, false)) // the server needs no nomination
	if !s.Heard(at(1150), peer(2), record) || s.Active() != peer(1) {
		t.Error("the old port may still live")
	}
	if !s.Heard(at(2500), peer(2), record) || s.Active() != peer(2) {
		t.Error("the silent port still gets the server's datagrams")
	}
	_ = s.Request(at(6000), peer(3), request(3, false))
	if s.Active() != peer(3) {
		t.Error("a check after a silence does not move the session")
	}
}

// TestReplayedRequests sends recorded requests from another address. They change nothing.
func TestReplayedRequests(t *testing.T) {
	var s Sources
	_ = s.Request(at(0), peer(1), request(1, true))
	thief := peer(66)
	err := s.Request(at(10), thief, request(1, true))
	if !errors.Is(err, codec.ErrDuplicate) || s.Heard(at(10), thief, record) {
		t.Error("a replayed request admits", err)
	}
	if err := s.Request(at(9000), thief, request(1, true)); !errors.Is(err, codec.ErrDuplicate) || s.Active() != peer(1) {
		t.Error("a replayed request takes a silent session", err)
	}
	// The client itself repeats a request. That is fine, and nominates nothing new.
	_ = s.Request(at(9000), peer(2), request(2, true))
	s.Heard(at(9100), peer(2), record)
	if err := s.Request(at(9100), peer(1), request(1, true)); err != nil || s.Active() != peer(2) {
		t.Errorf("a request that its own source repeats: %v, active %v", err, s.Active())
	}
}

// TestSourcesAreBounded asks from many addresses. The active source stays, and the oldest makes room.
func TestSourcesAreBounded(t *testing.T) {
	var s Sources
	_ = s.Request(at(0), peer(1), request(1, true))
	for n := 2; n <= 200; n++ {
		if err := s.Request(at(n), peer(n), request(n, false)); err != nil {
			t.Fatal(err)
		}
		s.Heard(at(n), peer(1), record)
	}
	all := s.Append(nil)
	if len(all) != MaxSources || s.Active() != peer(1) || s.Heard(at(200), peer(193), record) ||
		!s.Heard(at(200), peer(194), record) {
		t.Errorf("%d sources, active %v: %v", len(all), s.Active(), all)
	}
	if s.To(response(193)) != peer(1) || s.To(response(194)) != peer(194) {
		t.Error("responses to a source that has made room, or to one that has not")
	}
	if err := s.Request(at(200), peer(194), request(193, true)); !errors.Is(err, codec.ErrDuplicate) {
		t.Error("a request of a source that has made room:", err)
	}
	var silent Sources // the active source is the oldest
	for n := 1; n <= MaxSources+1; n++ {
		_ = silent.Request(at(n), peer(n), request(n, false))
	}
	if silent.Active() != peer(1) || silent.Heard(at(20), peer(2), record) {
		t.Error("the active source has made room")
	}
	if n := allocs.PerRun(100, func() {
		_ = s.Request(at(300), peer(7), request(7, false))
		s.Heard(at(300), peer(7), record)
		s.To(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
