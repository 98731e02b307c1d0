package raknet

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// begun are the parts that go-raknet has of a message, as bits. It forgets the message when it is whole.
type begun uint32

func (b *begun) take(d *doubt) {
	for _, i := range d.order() {
		if *b |= 1 << i; *b == 1<<d.Parts-1 {
			*b = 0
		}
	}
}

// TestDoubtCompletes leaves nothing of a message at go-raknet, whichever of the parts that were sent again it has, and
// whether a datagram comes once or twice.
func TestDoubtCompletes(t *testing.T) {
	for parts := uint32(2); parts <= 6; parts++ {
		for again := uint64(1); again < 1<<parts; again++ {
			for had := range uint64(1<<parts - 1) {
				if had&^again != 0 {
					continue
				}
				d := doubt{Parts: parts, Again: partSet{again}}
				at := begun(had)
				if d.Twice = again == 1<<parts-1; d.Twice {
					at.take(&d)
					at.take(&d)
					d.Twice = false
				}
				for copies := range 2 {
					if at.take(&d); at != 0 {
						t.Fatalf("%d parts, %b sent again, had %b: %b are left after %d datagrams", parts, again, had, at, copies+1)
					}
				}
			}
		}
	}
}

// TestLongDoubtCompletes leaves nothing of a message whose doubt needs several datagrams, whichever of its parts
// go-raknet has. Datagrams and their acknowledgements are lost.
func TestLongDoubtCompletes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, parts := range []uint32{69, 70, 127, 128, 129, 138, 139, 500, 512} {
		for range 50 {
			s := &newConnected(t, Options{}).client.sender
			s.Forgetful = true
			m := outgoing{Parts: parts}
			had := make(map[uint32]bool)
			for range 1 + rng.IntN(int(parts)-1) {
				i := rng.Uint32N(parts)
				m.Again.add(i)
				had[i] = rng.IntN(4) > 0
			}
			maps.DeleteFunc(had, func(_ uint32, has bool) bool { return !has })
			if len(had) == int(parts) {
				continue // it would be whole
			}
			if s.doubtOf(&m); len(s.doubts) != 1 || !s.doubts[0].Waits {
				t.Fatalf("%d parts: %d doubts", parts, len(s.doubts))
			}
			datagrams := 0
			for ; len(s.doubts) > 0; datagrams++ {
				d := s.waitingDoubt()
				b := s.complete(0, nil, d)
				if len(b) > s.datagramSize() {
					t.Fatalf("%d parts: a datagram of %d bytes", parts, len(b))
				}
				lost := rng.IntN(4)
				if lost != 0 {
					takeParts(t, had, parts, b)
				}
				s.answerDoubt(d.Number, lost > 1)
			}
			if len(had) != 0 {
				t.Fatalf("%d parts: %d are left after %d datagrams", parts, len(had), datagrams)
			}
		}
	}
}

// takeParts has go-raknet take the parts of a datagram.
func takeParts(t *testing.T, had map[uint32]bool, parts uint32, b []byte) {
	t.Helper()
	var err error
	for b = b[datagramHeaderSize:]; len(b) > 0; {
		var c capsule
		if b, err = c.parse(b); err != nil || c.splitCount != parts || c.splitIndex >= parts {
			t.Fatalf("%v: %+v", err, c)
		}
		if had[c.splitIndex] = true; len(had) == int(parts) {
			clear(had)
		}
	}
}

// TestNoDoubtOfOthers: a server that is not go-raknet gets no datagram that completes a message.
func TestNoDoubtOfOthers(t *testing.T) {
	l := newConnected(t, Options{})
	rng := rand.New(rand.NewPCG(1, 1))
	l.drop = func(bool, []byte) bool { return rng.IntN(3) == 0 }
	for range 20 {
		l.send(l.client, codec.ReliableOrdered, 4000, 0)
		l.client.sender.Congestion.queue.Lagging = true
		l.wait(100 * ms)
		if len(l.client.sender.doubts) > 0 {
			t.Fatal("our server counts as one that begins messages again")
		}
	}
	if l.wait(20 * time.Second); count(l.toServer, codec.Received) != 20 || l.client.sender.Resent == 0 {
		t.Errorf("%d of 20 messages came, %d parts again", count(l.toServer, codec.Received), l.client.sender.Resent)
	}
}

// TestForgedPingsMakeNoGoRakNet: an ordered ping, which a stranger may forge, says that a server is go-raknet only if
// it has accepted us as go-raknet does. It would end the bound of datagrams for a late server of RakLib or Cloudburst.
func TestForgedPingsMakeNoGoRakNet(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  codec.Mode // of the acceptance
		unix  bool       // it tells the time since 1970
		is    bool
		pings codec.Mode
	}{
		{"go-raknet", codec.ReliableOrdered, true, true, codec.ReliableOrdered},
		{"one whose pings are not ordered", codec.ReliableOrdered, true, false, codec.Reliable},
		{"Cloudburst", codec.Unreliable, true, false, codec.ReliableOrdered},
		{"RakLib", codec.Unreliable, false, false, codec.ReliableOrdered},
		{"stock", codec.ReliableOrdered, false, false, codec.ReliableOrdered},
	} {
		l := newLink(t, Options{DialVersion: 11})
		l.drop = func(toServer bool, b []byte) bool { return !toServer && b[0]&bitValid != 0 }
		l.wait(100 * ms)
		now := uint64(l.now.UnixMilli())
		m := connectionRequestAccepted{client: l.client.address(), addresses: 20, requestTime: now, replyTime: now}
		if !c.unix {
			m.replyTime = 60_000
		}
		order := Seq24(0)
		say := func(number Seq24, mode codec.Mode, payload []byte) {
			s := capsule{mode: mode, reliable: number, order: order, payload: payload}
			if mode == codec.ReliableOrdered {
				order++
			}
			if err := l.client.Receive(l.now, s.append(appendDataHeader(nil, number, false, true))); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		say(0, c.mode, m.append(nil))
		if l.client.phase < accepted {
			t.Fatalf("%s: not accepted", c.name)
		}
		if got, want := l.client.isHasty(), c.unix && c.mode == codec.ReliableOrdered; got != want {
			t.Errorf("%s: hasty %v, want %v", c.name, got, want)
		}
		ping := connectedPing{time: now}
		say(1, c.pings, ping.append(nil))
		if got := l.client.Stats().Lenient; got != c.is {
			t.Errorf("%s: lenient %v, want %v", c.name, got, c.is)
		}
	}
}

// TestSavedDoubts saves and restores a sender in doubt again and again while messages are sent again. Each field of its
// doubts and of its messages comes back, also a changed one.
func TestSavedDoubts(t *testing.T) {
	l := newConnected(t, Options{})
	l.client.sender.Forgetful = true
	rng := rand.New(rand.NewPCG(1, 1))
	l.drop = func(bool, []byte) bool { return rng.IntN(3) == 0 }
	doubted, resent := 0, 0
	for range 60 {
		l.send(l.client, codec.ReliableOrdered, 4000, 0)
		l.wait(20 * ms)
		checkSavedSender(t, l)
		for i := range l.client.sender.doubts {
			doubted++
			doubt := reflect.ValueOf(&l.client.sender.doubts[i]).Elem()
			for k := range doubt.NumField() {
				old := l.client.sender.doubts[i]
				if codectest.ChangeField(doubt.Field(k), l.now) && l.client.sender.fits(&l.client.sender.doubts[i]) {
					checkSavedSender(t, l)
				}
				l.client.sender.doubts[i] = old
			}
		}
		for _, p := range l.client.sender.flight.parts {
			if p.message != nil && p.message.Again != (partSet{}) {
				resent++
			}
		}
	}
	if doubted == 0 || resent == 0 {
		t.Errorf("%d doubts and %d messages with parts that were sent again were saved", doubted, resent)
	}
}

// checkSavedSender compares a client's doubts and messages in flight with those of its restored twin.
func checkSavedSender(t *testing.T, l *link) {
	t.Helper()
	restored, err := l.client.p.Restore(l.now, nil, l.client.Save(l.now, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, want := &restored.(*Conn).sender, &l.client.sender
	if len(want.doubts) > 0 && !reflect.DeepEqual(got.doubts, want.doubts) {
		t.Fatalf("restored doubts %+v, want %+v", got.doubts, want.doubts)
	}
	for i, p := range want.flight.parts {
		if p.message != nil && !reflect.DeepEqual(got.flight.parts[i].message, p.message) {
			t.Fatalf("restored message %+v, want %+v", got.flight.parts[i].message, p.message)
		}
	}
}

// TestDamagedDoubts: no record makes a doubt without parts, or with more than a datagram has room for.
func TestDamagedDoubts(t *testing.T) {
	l := newConnected(t, Options{})
	for _, d := range []doubt{
		{Parts: 1, Again: partSet{1}}, {Parts: 2}, {Parts: 2, Again: partSet{4}}, {Parts: 65, Again: partSet{1, 2}},
		{Parts: 70, Again: partSet{1}}, {Parts: 513, Again: allParts}, {Parts: 1 << 31, Again: partSet{1}},
	} {
		l.client.sender.doubts = []doubt{d}
		if _, err := l.client.p.Restore(l.now, nil, l.client.Save(l.now, nil)); err == nil {
			t.Errorf("a doubt of %+v is restored", d)
		}
	}
	l.client.sender.doubts = make([]doubt, maxOpenSplits+1)
	for i := range l.client.sender.doubts {
		l.client.sender.doubts[i] = doubt{Parts: 2, Again: partSet{1}}
	}
	if _, err := l.client.p.Restore(l.now, nil, l.client.Save(l.now, nil)); err == nil {
		t.Error("doubts without a bound are restored")
	}
}
