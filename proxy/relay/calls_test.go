package relay

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/recording"
)

// fakeJoiner joins servers that are the test.
type fakeJoiner struct {
	asked     []netip.AddrPort
	questions []*fakeQuestion
	ups       []*fakeStack // towards servers
	noStack   error
}

// fakeQuestion is a join whose answer the test gives.
type fakeQuestion struct {
	wake      func()
	answer    *nethernet.Answer
	err       error
	abandoned bool
}

func (j *fakeJoiner) Join(server netip.AddrPort, wake func()) Question {
	q := &fakeQuestion{wake: wake}
	j.asked, j.questions = append(j.asked, server), append(j.questions, q)
	return q
}

func (j *fakeJoiner) Dial(_ *nethernet.Peer, wake func()) (nethernet.Stack, error) {
	if j.noStack != nil {
		return nil, j.noStack
	}
	s := &fakeStack{wake: wake, paused: true}
	j.ups = append(j.ups, s)
	return s, nil
}

func (q *fakeQuestion) Take() (*nethernet.Answer, error) { return q.answer, q.err }
func (q *fakeQuestion) Abandon()                         { q.abandoned = true }

// callRelay is a Relay with a NetherNet client that has come, before NetherNet servers.
type callRelay struct {
	*stackedRelay
	*fakeJoiner
	client *fakeStack
}

func newCallRelay(t testing.TB) *callRelay {
	t.Helper()
	w := &callRelay{fakeJoiner: new(fakeJoiner)}
	w.stackedRelay = newStacked(t, func(u *Upstream) { u.Protocol, u.Joiner = NetherNet, w.fakeJoiner })
	w.hears(playerAddr(1), w.request(w.joinStacked("a"), true))
	w.client = w.stacks[0]
	w.client.out.Open = true
	w.wakes(w.client.wake)
	return w
}

// wakes lets the Relay take a turn, and returns what it has sent.
func (w *callRelay) wakes(wake func()) []simDatagram {
	w.out = w.out[:0]
	wake()
	w.relay.Advance(w.now)
	w.relay.Flush(w.now)
	return slices.Clone(w.out)
}

// tells gives the Relay a datagram of the server, and returns what the Relay has sent.
func (w *callRelay) tells(n int, datagram []byte) []simDatagram {
	return w.wakes(func() { w.Receive(w.now, edgeTarget, upstreamSocketAddr(n), bytes.Clone(datagram)) })
}

var callAnswer = &nethernet.Answer{
	Peer: &nethernet.Peer{}, Target: edgeTarget, Ufrag: "ours", Password: "our password of 22 letters",
	PeerUfrag: "theirs", PeerPassword: "their password of 22 letters", Seed: 7,
}

// answer lets the server answer, and returns its stack's end here.
func (w *callRelay) answer(n int) *fakeStack {
	w.t.Helper()
	q := w.questions[len(w.questions)-1]
	q.answer = callAnswer
	out := w.wakes(q.wake)
	var b nethernet.Binding
	if len(out) != 1 || out[0].to != edgeTarget || b.Parse(out[0].bytes) != nil || !b.Names("theirs", "ours") {
		w.t.Fatalf("the server was not checked: %v", out)
	}
	w.tells(n, nethernet.NewIntegrity().AppendSuccess(nil, b.ID, listenerAddr, callAnswer.PeerPassword))
	return w.ups[len(w.ups)-1]
}

// TestCalls joins a server over HTTP, checks the path that it names, and lets messages pass both ways.
func TestCalls(t *testing.T) {
	w := newCallRelay(t)
	if len(w.asked) != 1 || w.asked[0] != serverAddr || len(w.sockets) != 1 {
		t.Fatalf("asked %v, with %d sockets", w.asked, len(w.sockets))
	}
	up := w.answer(0)
	up.out.AddDatagram(edgeRecord)
	if out := w.wakes(up.wake); len(out) != 1 || out[0].to != edgeTarget || !bytes.Equal(out[0].bytes, edgeRecord) {
		t.Fatalf("the stack's datagram became %v", out)
	}
	if w.tells(0, edgeRecord); len(up.got) != 1 {
		t.Fatalf("the stack got %d datagrams", len(up.got))
	}
	up.out.Open = true
	if w.wakes(up.wake); up.paused || w.client.paused || w.relay.counters.Established != 1 {
		t.Fatal("the session is not established")
	}
	captured := recording.NewSpool(&recording.CaptureFilter{}, make(chan struct{}, 1))
	w.relay.capture(captured)
	w.client.out.AddMessage([]byte("question"), true)
	w.wakes(w.client.wake)
	up.out.AddMessage([]byte("answer"), true)
	w.wakes(up.wake)
	w.relay.endCapture(captured)
	var inside []string
	for _, c := range captured.Swap(new(recording.Batch)).Captured {
		text, content, _ := nethernet.Describe()(false, c.Bytes)
		inside = append(inside, fmt.Sprint(text, content, c.Upstream, c.Sent, c.Session))
	}
	question, answer := "message inside, 9 bytes[\"\\xfequestion\"] ", "message inside, 7 bytes[\"\\xfeanswer\"] "
	if want := []string{question + "false false 1", question + "true true 1", answer + "true false 1",
		answer + "false true 1"}; !slices.Equal(slices.Sorted(slices.Values(inside)), slices.Sorted(slices.Values(want))) {
		t.Errorf("captured %q, want %q", inside, want)
	}
	if len(up.sent) != 1 || string(up.sent[0]) != "question" || len(w.client.sent) != 1 ||
		string(w.client.sent[0]) != "answer" {
		t.Errorf("the server got %q, the client %q", up.sent, w.client.sent)
	}
	for e := range w.relay.table.All {
		if why := staysHere(w.relay, e); why == "" || copyCalm(w.relay, w.now, e) == copying {
			t.Error("it can leave")
		}
		if err := w.relay.move(w.now, e, netip.AddrPort{}); !errors.Is(err, ErrNotMovable) {
			t.Error(err)
		}
	}
	if n, behind := w.relay.DismissStacked(w.now); n != 1 || behind != 0 || w.relay.PartStacked(w.now) != 1 {
		t.Errorf("%d dismissed, %d behind", n, behind)
	}
	for _, s := range []*fakeStack{up, w.client} {
		s.out.End.Reason = codec.Closed
		w.wakes(s.wake)
	}
	if w.relay.Len() != 0 || !up.abandoned || !w.questions[0].abandoned || !w.client.abandoned {
		t.Errorf("%d sessions; %+v, %+v", w.relay.Len(), up, w.questions[0])
	}
	w.wakes(up.wake) // late ones concern no session
	w.wakes(w.questions[0].wake)
}

// TestCallIsNotSaved keeps a session from a successor, of which the server's end alone has a stack.
func TestCallIsNotSaved(t *testing.T) {
	if !isStacked(&link{terminated: &terminated{call: new(call)}}) {
		t.Error("it can be saved")
	}
	if isStacked(new(link)) || isStacked(&link{terminated: new(terminated)}) {
		t.Error("others cannot be saved")
	}
}

// TestCallServerDies ends the session of a server that stops to answer checks.
func TestCallServerDies(t *testing.T) {
	w := newCallRelay(t)
	up := w.answer(0)
	up.out.Open = true
	w.wakes(up.wake)
	for range 60 {
		w.wakes(func() { w.now = w.now.Add(time.Second / 2) })
		w.hears(playerAddr(1), w.request(w.relay.listeners[0].joins.table.Find(w.now, []byte("srva:clia")), false))
		w.relay.Flush(w.now)
	}
	if w.client.closed == "" || !up.abandoned {
		t.Errorf("%q; %+v", w.client.closed, up)
	}
}

// TestCallRefused tells the player how a server has refused, or asks the next server if none can be reached.
func TestCallRefused(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		asked int
		told  string
	}{
		"full":          {&nethernet.Refusal{Status: 503}, 1, "full"},
		"identity":      {&nethernet.Refusal{Status: 200, Text: "37"}, 1, "refused"},
		"wants TLS":     {&nethernet.Refusal{Status: 426}, 1, "version"},
		"broken":        {&nethernet.Refusal{Status: 500}, 2, ""},
		"a third party": {nethernet.ErrThirdParty, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCallRelay(t)
			first := w.questions[0]
			first.err = row.err
			w.wakes(first.wake)
			if len(w.asked) != row.asked || !bytes.Contains([]byte(w.client.closed), []byte(row.told)) {
				t.Errorf("asked %v; the player reads %q", w.asked, w.client.closed)
			}
			w.client.out.End.Reason = codec.Closed
			w.wakes(w.client.wake)
			w.wakes(func() { w.now = w.now.Add(lingerTime) })
			if w.relay.Len() != 0 || !first.abandoned {
				t.Errorf("%d sessions; abandoned: %v", w.relay.Len(), first.abandoned)
			}
		})
	}
}

// TestCallSilence leaves servers that do not answer over HTTP, or whose named address is silent. The player is told.
func TestCallSilence(t *testing.T) {
	for _, answers := range []bool{false, true} {
		w := newCallRelay(t)
		if answers {
			w.questions[0].answer = callAnswer
			w.wakes(w.questions[0].wake)
		}
		began := w.now
		for w.client.closed == "" && w.now.Sub(began) < time.Minute {
			w.wakes(func() { w.now = w.now.Add(time.Second / 4) })
		}
		if len(w.asked) != 2 || w.asked[1] != secondAddr || !w.questions[0].abandoned ||
			w.now.Sub(began) > w.settings.HandshakeTimeout {
			t.Errorf("asked %v; told after %v: %q", w.asked, w.now.Sub(began), w.client.closed)
		}
	}
}

// TestCallWithout tells the players if this process can join no server: it has no certificate, or no more stacks.
func TestCallWithout(t *testing.T) {
	for _, full := range []bool{false, true} {
		w := newCallRelay(t)
		if full {
			w.noStack = errors.New("full")
			w.questions[0].answer = callAnswer
			w.wakes(w.questions[0].wake)
		} else {
			w.relay.routes[0].Upstream.Joiner = nil
			w.questions[0].err = &nethernet.Refusal{Status: 500}
			w.wakes(w.questions[0].wake)
		}
		began := w.now
		for w.client.closed == "" && w.now.Sub(began) < time.Minute {
			w.wakes(func() { w.now = w.now.Add(time.Second) })
		}
		if w.now.Sub(began) > w.settings.HandshakeTimeout {
			t.Errorf("told after %v: %q", w.now.Sub(began), w.client.closed)
		}
	}
}

// TestCallBusy: a bound of this process is no fault of the servers. The session asks again in a moment.
func TestCallBusy(t *testing.T) {
	w := newCallRelay(t)
	w.noStack = fmt.Errorf("no more: %w", nethernet.ErrBusy)
	first := w.questions[0]
	first.answer = callAnswer
	if out := w.wakes(first.wake); len(out) > 0 || !first.abandoned || len(w.asked) != 1 || w.client.closed != "" {
		t.Fatalf("%d datagrams, asked %v, the player is told %q", len(out), w.asked, w.client.closed)
	}
	for _, s := range w.relay.routes[0].pool.Status(w.now) {
		if s.State != upstream.Up {
			t.Errorf("a server is blamed: %+v", s)
		}
	}
	w.noStack = nil
	w.wakes(func() { w.now = w.now.Add(seekEvery) })
	if len(w.asked) != 2 {
		t.Fatalf("asked %v", w.asked)
	}
	up := w.answer(1)
	up.out.Open = true
	if w.wakes(up.wake); w.relay.counters.Established != 1 {
		t.Error("not established")
	}
}

// TestCallCause: the log of a session does not name the failure of a server that it left before.
func TestCallCause(t *testing.T) {
	w := newCallRelay(t)
	first := w.questions[0]
	first.err = errors.New("connection refused")
	w.wakes(first.wake)
	up := w.answer(1)
	up.out.Open = true
	if w.wakes(up.wake); w.relay.counters.Established != 1 || len(w.relay.journal.causes) > 0 {
		t.Errorf("%d established, causes %v", w.relay.counters.Established, w.relay.journal.causes)
	}
}

// TestCallLate: an answer for a session that has given up opens no way to the server.
func TestCallLate(t *testing.T) {
	w := newCallRelay(t)
	for w.client.closed == "" {
		w.wakes(func() { w.now = w.now.Add(time.Second / 4) })
	}
	last := w.questions[len(w.questions)-1]
	last.answer = callAnswer
	if out := w.wakes(last.wake); len(w.ups) > 0 || len(out) > 0 {
		t.Errorf("%d stacks and %d datagrams to the server", len(w.ups), len(out))
	}
}

// TestNoStackDuringUpgrade: while a successor starts, no session with a stack begins, and no server is asked. If the
// upgrade fails, they begin again.
func TestNoStackDuringUpgrade(t *testing.T) {
	w := newCallRelay(t)
	w.relay.HoldStacked(true)
	asked, late := len(w.asked), w.joinStacked("b")
	w.hears(playerAddr(2), w.request(late, true))
	if len(w.stacks) != 1 {
		t.Fatal("a stack has begun that the successor cannot have")
	}
	if waiting := w.relay.listeners[0].joins.table.Save(w.now); len(waiting) != 1 || waiting[0].ID != "b" {
		t.Errorf("the successor gets the joins %v", waiting)
	}
	e := tableEntry(t, w.relay)
	if e.Value.call = nil; !w.relay.dial(w.now, e, nil) || len(w.asked) != asked || !e.Value.dialBy.After(w.now) {
		t.Errorf("asked %d servers meanwhile", len(w.asked)-asked)
	}
	if w.hears(playerAddr(2), w.request(late, true)); len(w.stacks) != 1 {
		t.Error("a stack begins while the upgrade goes on")
	}
	w.relay.HoldStacked(false)
	if w.hears(playerAddr(2), w.request(late, true)); len(w.stacks) != 2 {
		t.Error("no stack begins after an upgrade that has failed")
	}
}

func tableEntry(t *testing.T, r *Relay) (e *Entry) {
	t.Helper()
	r.eachStacked(func(one *Entry) { e = one })
	if e == nil {
		t.Fatal("no session")
	}
	return e
}
