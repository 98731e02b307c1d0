package raknet

import (
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// TestMain checks that the workspace of connections without one stays empty.
func TestMain(m *testing.M) {
	code := m.Run()
	if !reflect.DeepEqual(noWorkspace, workspace{}) {
		os.Stderr.WriteString("a connection wrote into the workspace of none\n")
		code = 1
	}
	os.Exit(code)
}

// idleLink returns a link of one loop whose game has been silent for a while.
func idleLink(t testing.TB) *link {
	l := connect(t, newLinkOf(t, New(Options{}).ForLoop().(*Protocol)))
	l.wait(12 * time.Second)
	return l
}

func TestIdleConnectionHasNoWorkspace(t *testing.T) {
	l := idleLink(t)
	for _, c := range []*Conn{l.client, l.server} {
		if c.workspace != &noWorkspace {
			t.Fatal("an idle connection has a workspace")
		}
		if _, ok := c.Poll(); ok || c.NextTimeout().IsZero() {
			t.Error("an idle connection has an event, or no timeout")
		}
	}
	l.send(l.client, codec.ReliableOrdered, 1000, 0)
	l.wait(50 * ms)
	if len(l.toServer) != 1 || len(l.toServer[0].Payload) != 1000 {
		t.Errorf("after silence the server saw %+v", l.toServer)
	}
	l.client.Close(l.now, codec.Goodbye{})
	l.wait(2 * time.Second)
	if l.client.workspace != &noWorkspace || l.server.workspace != &noWorkspace {
		t.Error("a connection that has ended has a workspace")
	}
	if n := len(l.p.spaces.free); n != 2 {
		t.Errorf("%d workspaces are there for use again, want 2", n)
	}
}

// TestNextConnectionHasTheMemory ends a connection that still has data to send. Its workspace is empty afterwards, and
// keeps its memory.
func TestNextConnectionHasTheMemory(t *testing.T) {
	l := connect(t, newLinkOf(t, New(Options{}).ForLoop().(*Protocol)))
	l.send(l.server, codec.ReliableOrdered, 200, 1)
	l.send(l.server, codec.ReliableOrdered, 5000, 2) // in parts
	if _, ok := l.server.Transmit(l.now, nil); !ok {
		t.Fatal("nothing is under way")
	}
	l.client.Close(l.now, codec.Goodbye{})
	l.drop = func(up bool, _ []byte) bool { return !up }
	l.exchange()
	l.wait(4 * time.Second)
	got := codectest.Kinds(l.toServer)
	if !slices.Equal(got, []codec.EventKind{codec.Lost, codec.Lost, codec.Disconnected}) {
		t.Errorf("the server saw %v", got)
	}
	if n := len(l.p.spaces.free); n != 2 {
		t.Fatalf("%d workspaces are there for use again, want 2", n)
	}
	for _, w := range l.p.spaces.free {
		f, s := &w.flying, &w.sending
		if len(f.parts)+len(f.free)+len(f.resend)+len(f.done)+len(f.repeats)+s.control.size+s.small.size+s.bulk.size > 0 {
			t.Errorf("a workspace for use again has something in it: %+v, %+v", f, s)
		}
		if cap(f.ring) == 0 || cap(f.parts) == 0 || len(s.control.ring) == 0 {
			t.Errorf("a workspace for use again has no room: %+v, %+v", f, s)
		}
	}
	if m := &l.p.spaces.memory; len(m.records) == 0 || m.kept == 0 {
		t.Errorf("%d records and %d bytes are there for use again", len(m.records), m.kept)
	}
}

// TestIdlePingsAllocateNothing: the memory for a ping is lent.
func TestIdlePingsAllocateNothing(t *testing.T) {
	l := idleLink(t)
	s := &steady{link: l, buffer: make([]byte, 0, codec.MaxDatagram)}
	step := func() {
		l.now = l.now.Add(l.p.o.Timeout / 2)
		l.client.Advance(l.now)
		l.server.Advance(l.now)
		for s.shuttle(l.client, l.server) || s.shuttle(l.server, l.client) {
		}
		l.now = l.now.Add(20 * ms) // acknowledgements wait for a while
		l.client.Advance(l.now)
		l.server.Advance(l.now)
		for s.shuttle(l.client, l.server) || s.shuttle(l.server, l.client) {
		}
	}
	for range 10 {
		step()
	}
	before := l.client.sent
	if got := allocs.PerRun(100, step); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if l.client.sent < before+100 || l.client.phase != connected {
		t.Errorf("%d datagrams in 100 steps", l.client.sent-before)
	}
}

// TestWorkspacesAreBounded: after many clients only the memory for their pings is left, and no large workspace.
func TestWorkspacesAreBounded(t *testing.T) {
	const crowd = 10_000
	var p workspaces
	lent := make([]*workspace, crowd)
	for i := range lent {
		lent[i] = p.get()
	}
	for _, w := range lent {
		p.put(w)
	}
	if n := len(p.free); n < keptWorkspaces || n > keptWorkspaces+workspaceReview {
		t.Errorf("%d are kept, want %d or some more", n, keptWorkspaces)
	}
	n := len(p.free)
	large := p.get()
	large.lent = make([][]byte, keptPlaces+1)
	p.put(large)
	if len(p.free) != n-1 {
		t.Errorf("%d are kept with one that has grown, want %d", len(p.free), n-1)
	}
}
