package nethernet

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
)

// callWorld is a Call, and the server that it reaches.
type callWorld struct {
	t      *testing.T
	now    time.Time
	call   Call
	stack  *fakeStack
	answer *Answer
	server *Integrity
}

func newCall(t *testing.T) *callWorld {
	w := &callWorld{t: t, now: time.Unix(1, 0), stack: &fakeStack{paused: true}, server: NewIntegrity()}
	w.answer = &Answer{
		Target: netip.MustParseAddrPort("192.0.2.1:19132"), Ufrag: "ours", Password: "our password of 22 letters",
		PeerUfrag: "theirs", PeerPassword: "their password of 22 letters", Seed: 7, Peer: &Peer{},
	}
	w.call.Begin(w.now, w.answer, NewIntegrity(), w.stack)
	return w
}

// transmit returns all datagrams that the Call has to send.
func (w *callWorld) transmit() (all [][]byte) {
	for {
		b, ok := w.call.Transmit(w.now, nil)
		if !ok {
			return all
		}
		all = append(all, b)
	}
}

// check returns the next datagram, which must be the only one and a check.
func (w *callWorld) check() (b Binding) {
	w.t.Helper()
	all := w.transmit()
	if len(all) != 1 || b.Parse(all[0]) != nil || b.Class != Request || !b.Names("theirs", "ours") ||
		!b.IsWhole() || !w.server.Verify(&b, w.answer.PeerPassword) || b.Role != Controlling {
		w.t.Fatalf("%d datagrams: %x", len(all), all)
	}
	return b
}

// wait lets time pass until the Call has to do something.
func (w *callWorld) wait() (waited time.Duration) {
	waited = w.call.NextTimeout().Sub(w.now)
	w.now = w.now.Add(waited)
	w.call.Advance(w.now)
	return waited
}

func (w *callWorld) success(id TransactionID, password string) []byte {
	return w.server.AppendSuccess(nil, id, netip.MustParseAddrPort("192.0.2.9:4711"), password)
}

// reach answers the first check.
func (w *callWorld) reach() {
	w.t.Helper()
	if err := w.call.Receive(w.now, w.success(w.check().ID, w.answer.PeerPassword)); err != nil {
		w.t.Fatal(err)
	}
}

// TestCall checks the path until the server answers, then lets DTLS pass, and asks for consent.
func TestCall(t *testing.T) {
	w := newCall(t)
	w.stack.out.AddDatagram([]byte("DTLS"))
	first := w.check()
	var waits []time.Duration
	for range 6 {
		w.call.Advance(w.now)
		waits = append(waits, w.wait())
		if b := w.check(); b.ID != first.ID || !b.Nominates {
			t.Fatalf("%+v", b)
		}
	}
	if waits[0] != firstWait || waits[1] != 2*firstWait || waits[5] != mostWait {
		t.Error(waits)
	}
	if err := w.call.Receive(w.now, w.success(first.ID, w.answer.PeerPassword)); err != nil {
		t.Fatal(err)
	}
	if all := w.transmit(); len(all) != 1 || string(all[0]) != "DTLS" {
		t.Fatalf("%q", all)
	}
	w.stack.out.Open = true
	w.call.Advance(w.now)
	if ev, ok := w.call.Poll(); !ok || ev.Kind != codec.Connected || w.stack.paused {
		t.Error(ev, ok)
	}
	if err := w.call.Send(w.now, codec.Message{Payload: []byte("\xfehello"), Mode: codec.ReliableOrdered}); err != nil ||
		string(w.stack.sent[0]) != "hello" {
		t.Error(err, w.stack.sent)
	}
	for range 100 { // each check has an ID of its own, and leaves at another time
		if waited := w.wait(); waited < consentEvery*4/5 || waited > consentEvery*6/5 {
			t.Fatal(waited)
		}
		b := w.check()
		if b.ID == first.ID || b.Nominates {
			t.Fatalf("%+v", b)
		}
		if err := w.call.Receive(w.now, w.success(b.ID, w.answer.PeerPassword)); err != nil {
			t.Fatal(err)
		}
		first = b
	}
	if s := w.call.Stats(); s.Received != 101 || s.Sent != 6+1+1+100 {
		t.Errorf("%+v", s)
	}
	w.call.Close(w.now, codec.Goodbye{Reason: codec.Kicked})
	if w.stack.closed != "" {
		t.Error("the server reads what is for a player")
	}
}

// TestCallForged lets others answer in the server's place, and forge its checks. Nothing of that counts.
func TestCallForged(t *testing.T) {
	w := newCall(t)
	id := w.check().ID
	request := func(to, from, password string) []byte {
		return w.server.AppendCheck(nil, Check{ID: TransactionID{1}, To: to, From: from, Role: Controlled}, password)
	}
	failure := w.success(id, w.answer.PeerPassword)
	be.PutUint16(failure, uint16(Failure))
	cut := w.success(id, w.answer.PeerPassword)
	for name, b := range map[string][]byte{
		"another password":  w.success(id, w.answer.Password),
		"another ID":        w.success(TransactionID{9}, w.answer.PeerPassword),
		"a failure":         failure,
		"broken":            cut[:len(cut)-4],
		"another name":      request("theirs", "ours", w.answer.Password),
		"another's request": request("ours", "theirs", w.answer.PeerPassword),
	} {
		if err := w.call.Receive(w.now, b); err == nil || w.call.agent.works() {
			t.Errorf("%s: taken", name)
		}
	}
	if all := w.transmit(); len(all) != 0 {
		t.Errorf("answered with %x", all)
	}
	for range 10 { // a server's own checks are answered, within a bound
		if err := w.call.Receive(w.now, request("ours", "theirs", w.answer.Password)); err != nil {
			t.Fatal(err)
		}
	}
	all := w.transmit()
	var b Binding
	if len(all) != maxOwed || b.Parse(all[0]) != nil || b.Class != Success || b.Mapped != w.answer.Target ||
		!w.server.Verify(&b, w.answer.Password) {
		t.Errorf("%d answers: %x", len(all), all)
	}
}

// TestCallConsent ends a connection whose server no longer answers checks.
func TestCallConsent(t *testing.T) {
	w := newCall(t)
	w.reach()
	began := w.now
	for range 20 {
		w.wait()
		w.transmit()
		if ev, ok := w.call.Poll(); ok {
			if ev.Kind != codec.Disconnected || ev.Reason != codec.TimedOut || w.now.Sub(began) != consentTime {
				t.Errorf("%+v after %v", ev, w.now.Sub(began))
			}
			if _, ok := w.call.Poll(); ok || !w.call.NextTimeout().IsZero() || len(w.transmit()) > 0 {
				t.Error("something follows")
			}
			return
		}
	}
	t.Error("no end")
}

// TestCallFailed ends calls whose servers have never answered, and one whose stack ends.
func TestCallFailed(t *testing.T) {
	var c Call
	c.Advance(time.Time{})
	if err := c.Receive(time.Time{}, []byte{22, 0xfe, 0xfd}); !errors.Is(err, codec.ErrUnexpected) {
		t.Error(err)
	}
	if err := c.Send(time.Time{}, codec.Message{}); !errors.Is(err, codec.ErrClosed) {
		t.Error(err)
	}
	if _, ok := c.Transmit(time.Time{}, nil); ok || c.Fill() != 0 || c.End() != (End{}) {
		t.Error("it does something before its answer")
	}
	c.Throttle(time.Time{}, codec.Refuse)
	c.Fail(codec.ServerFull)
	c.Close(time.Time{}, codec.Goodbye{})
	if ev, _ := c.Poll(); ev.Kind != codec.Disconnected || ev.Reason != codec.ServerFull {
		t.Errorf("%+v", ev)
	}
	w := newCall(t)
	w.reach()
	w.stack.out.End = End{Reason: codec.Closed}
	w.call.Advance(w.now)
	w.now = w.now.Add(time.Hour)
	for want := range 2 {
		if ev, ok := w.call.Poll(); ok == (want == 1) || ok && ev.Reason != codec.Closed {
			t.Errorf("%+v", ev)
		}
		w.call.Advance(w.now)
	}
}

// TestRefusal says what players are told of a server's refusal.
func TestRefusal(t *testing.T) {
	for status, want := range map[int]codec.Reason{
		200: codec.Rejected, 400: codec.Incompatible, 401: codec.Rejected, 403: codec.Rejected, 404: codec.Incompatible,
		426: codec.Incompatible, 500: codec.NoConnection, 502: codec.NoConnection, 503: codec.ServerFull, 302: codec.Rejected,
	} {
		if got := (&Refusal{Status: status}).Reason(); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
	err := &Refusal{200, "37" + string(bytes.Repeat([]byte{0xff}, 100))}
	if got := err.Error(); got != `the server has refused the join: HTTP status 200, "37"` {
		t.Error(got)
	}
}
