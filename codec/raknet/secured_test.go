package raknet

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidegate/codec"
)

// The captures in testdata/secured come from two real peers that both encrypt. They do not encrypt up to reply 2, and
// both our sides follow them so far. The rest cannot be read without the keys.

// eachSecured runs f for each capture of an encrypted session.
func eachSecured(t *testing.T, f func(t *testing.T, c *capture, p peers)) {
	for _, c := range capturesOf(t, func(file string) bool { return strings.HasPrefix(file, "secured/") }) {
		t.Run(c.Name, func(t *testing.T) { f(t, &c, meet(t, &c, 1)) })
	}
}

// TestSecuredHandshakeBytes reads the unencrypted messages, and writes them again.
func TestSecuredHandshakeBytes(t *testing.T) {
	eachSecured(t, func(t *testing.T, c *capture, _ peers) {
		var first openConnectionRequest1
		var offer openConnectionReply1
		var second openConnectionRequest2
		var grant openConnectionReply2
		plain := 0
		for _, d := range c.Lines {
			var again []byte
			var err error
			switch id, ok := offlineID(d.Datagram); {
			case !ok:
				continue
			case id == idOpenConnectionRequest1:
				err = first.parse(d.Datagram)
				again = first.append(nil)
			case id == idOpenConnectionReply1:
				err = offer.parse(d.Datagram)
				again = offer.append(nil)
			case id == idOpenConnectionRequest2:
				err = second.parse(d.Datagram, true)
				again = second.append(nil)
			case id == idOpenConnectionReply2:
				err = grant.parse(d.Datagram)
				again = grant.append(nil)
			}
			plain++
			if err != nil || !bytes.Equal(again, d.Datagram) {
				t.Errorf("%s: %v, written again as %x, was %x", d.What, err, again, d.Datagram)
			}
		}
		if plain < 4 || !offer.encrypts || !second.challenged || !grant.encrypts {
			t.Errorf("%d plain datagrams; offer %v, challenge %v, answer %v; want 4 and all",
				plain, offer.encrypts, second.challenged, grant.encrypts)
		}
	})
}

// TestReplaySecuredClient: our client sends the same as the real one, without a challenge, and ends at reply 2.
func TestReplaySecuredClient(t *testing.T) {
	eachSecured(t, func(t *testing.T, c *capture, p peers) {
		r := newReplay(t)
		r.runTo(c.Lines[0].At())
		r.conn = New(Options{}).Dial(r.now, p.server, codec.Hello{Identity: p.clientGUID})
		r.drain()
		for _, d := range c.delivered(1, "server") {
			r.runTo(d.At())
			_ = r.receive(d.Datagram)
		}
		if r.connected || !r.over || r.reason != codec.Incompatible || len(r.messages) > 0 {
			t.Errorf("connected = %v, over = %v for %v, %d messages; want an end as incompatible",
				r.connected, r.over, r.reason, len(r.messages))
		}
		recorded := unchallenged(wiresOf(c, 1, "client"))
		ours := offlineOnly(r.sent)
		for _, b := range ours {
			if !contains(recorded, b) && !isRepeated(ours, b) { // our repeats are a byte shorter each
				t.Errorf("sent %x, which the real client did not", b)
			}
		}
		if len(ours) < 2 {
			t.Errorf("%d requests, want 2 at least", len(ours))
		}
	})
}

// isRepeated reports whether the first of list begins as b, a first request.
func isRepeated(list [][]byte, b []byte) bool {
	return b[0] == idOpenConnectionRequest1 && bytes.HasPrefix(list[0], b)
}

// unchallenged returns the datagrams with the challenges removed from second requests.
func unchallenged(wires [][]byte) (list [][]byte) {
	for _, wire := range wires {
		var second openConnectionRequest2
		if second.parse(wire, true) == nil {
			second.challenged, second.challenge = false, [challengeSize]byte{}
			wire = second.append(nil)
		}
		list = append(list, wire)
	}
	return list
}

// TestReplaySecuredServer: our server grants like the real one, without the key and the answer, and accepts nothing
// else.
func TestReplaySecuredServer(t *testing.T) {
	eachSecured(t, func(t *testing.T, c *capture, p peers) {
		s := &serverReplay{
			replay: newReplay(t), protocol: New(Options{GUID: p.serverGUID}), peers: p, recorded: true, cookies: true,
		}
		for _, d := range c.delivered(1, "client") {
			s.runTo(d.At())
			s.take(d.Datagram)
		}
		if s.conn != nil {
			t.Error("made a connection, which the client would take for encrypted")
		}
		var grant, theirs openConnectionReply2
		i := slices.IndexFunc(s.sent, func(b []byte) bool { return grant.parse(b) == nil })
		recorded := wiresOf(c, 1, "server")
		j := slices.IndexFunc(recorded, func(b []byte) bool { return theirs.parse(b) == nil })
		if i < 0 || j < 0 {
			t.Fatalf("grants at %d and %d", i, j)
		}
		theirs.encrypts, theirs.answer = false, [answerSize]byte{}
		if grant != theirs {
			t.Errorf("granted %+v, want %+v", grant, theirs)
		}
	})
}

// TestDescribeSecured: every unencrypted message has its name, and all others are described as encrypted.
func TestDescribeSecured(t *testing.T) {
	eachSecured(t, func(t *testing.T, c *capture, _ peers) {
		granted := false
		for i, line := range describeAll(t, *c) {
			wire := c.Lines[i].Datagram
			_, isPlain := offlineID(wire)
			cipher := strings.HasSuffix(line, fmt.Sprintf(" ciphertext of %d bytes", len(wire)))
			if cipher == isPlain || !isPlain && !granted {
				t.Errorf("datagram %d of %d bytes: %s", i+1, len(wire), line)
			}
			granted = granted || isPlain && wire[0] == idOpenConnectionReply2
		}
	})
}
