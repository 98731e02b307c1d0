package netio_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/netio"
)

// give gives the sockets of a Poller that do not listen to another one, as another process would get them.
func (l *loop) give(to *loop) (given int) {
	l.t.Helper()
	for first, more := true, true; more; first = false {
		var state []byte
		var copied []int
		state, copied, more = l.Poller.(netio.Handover).Give(first)
		must(l.t, to.Poller.(netio.Handover).Take(state, copies(l.t, copied)))
		netio.CloseCopies(copied)
		given += len(copied)
	}
	return given
}

// TestGive gives sockets to another process before the handover, which finds them and the members of shared ones by
// their names at once. Meanwhile one of each kind closes, and new sockets get their descriptors. The state of the
// handover has only sockets that were not given. All go on, and no descriptor stays open.
func TestGive(t *testing.T) {
	const members = 5
	open := openDescriptors(t)
	old, peers := newLoop(t, netio.Options{Backend: netio.Epoll}), newLoop(t, netio.Options{Backend: netio.Portable})
	next := newLoop(t, netio.Options{Backend: netio.Epoll})
	at := peers.listen(loopback)
	var all []netio.Socket
	for range members {
		all = append(all, old.dial(at.Addr()))
	}
	prefix := netio.SocketOptions{Sources: netip.MustParsePrefix("127.9.0.0/24")}
	virtual, err := old.Dial(at.Addr(), prefix)
	must(t, err)
	var shared []netio.Socket // the peer is the same, so each one has its own descriptor
	for range 3 {
		s, err := old.Dial(at.Addr(), netio.SocketOptions{Shared: true})
		must(t, err)
		shared = append(shared, s)
	}
	const given = members + 1 + 3
	for range 2 { // the first round is that of a successor that has failed
		other := newLoop(t, netio.Options{Backend: netio.Epoll})
		if n := old.give(other); n != given {
			t.Fatalf("%d sockets are given, want %d", n, given)
		}
		must(t, other.Close())
	}
	old.give(next)
	from, to := old.Poller.(netio.Handover), next.Poller.(netio.Handover)
	for _, s := range []netio.Socket{all[0], virtual, shared[0], shared[1]} { // nothing asks for the last one
		if named, _ := to.Named(from.AppendName(nil, s)); named == nil || named.Peer() != s.Peer() {
			t.Fatalf("%v to %v became %v before the handover", s.Addr(), s.Peer(), named)
		}
	}

	closed := all[2].Addr()
	all[2].Close()
	all[2] = old.dial(at.Addr()) // it gets the descriptor of the closed one
	if all[2].Addr() == closed {
		t.Fatal("the new socket is the closed one")
	}
	shared[1].Close()
	shared[2].Close()
	all = append(all, old.dial(at.Addr()), old.dial(at.Addr()), old.dial(at.Addr()), virtual, shared[0])
	for i, s := range all {
		old.send(s, netip.AddrPort{}, fmt.Sprint("question ", i))
	}
	old.Flush()
	peers.untilReceived(len(all))
	for _, r := range peers.received {
		peers.send(r.socket, r.from, "answer")
	}
	peers.Flush()

	state, descriptors := from.Export(true)
	if len(descriptors) != 4 {
		t.Errorf("the handover has %d descriptors, want four new sockets", len(descriptors))
	}
	must(t, to.Import(state, copies(t, descriptors)))
	for i, s := range all {
		named, rest := to.Named(from.AppendName(nil, s))
		if named == nil || len(rest) > 0 || named.Addr() != s.Addr() || named.Peer() != s.Peer() {
			t.Fatalf("%v to %v became %v", s.Addr(), s.Peer(), named)
		}
		if i > 0 { // the first one has no session
			named.SetOwner("session")
		}
	}
	to.CloseUnclaimed()
	from.Leave()
	next.untilReceived(len(all) - 1)
	must(t, next.Close())
	must(t, old.Close())
	must(t, peers.Close())
	checkDescriptors(t, open)
}

// TestGivenSharedSocketWithoutMembers asserts that the other process closes a given socket without a use.
func TestGivenSharedSocketWithoutMembers(t *testing.T) {
	peers, next := newLoop(t, netio.Options{Backend: netio.Portable}), newLoop(t, netio.Options{Backend: netio.Epoll})
	at := peers.listen(loopback)
	open := openDescriptors(t)
	old := newLoop(t, netio.Options{Backend: netio.Epoll})
	s, err := old.Dial(at.Addr(), netio.SocketOptions{Shared: true})
	must(t, err)
	if n := old.give(next); n != 1 {
		t.Fatalf("%d sockets are given", n)
	}
	s.Close()
	from, to := old.Poller.(netio.Handover), next.Poller.(netio.Handover)
	state, descriptors := from.Export(true)
	must(t, to.Import(state, copies(t, descriptors)))
	to.CloseUnclaimed()
	must(t, old.Close())
	checkDescriptors(t, open)
}

// TestCloseOfGivenSocket asserts that a socket that another process has too leaves the epoll set when it closes: its
// input would wake the loop for ever.
func TestCloseOfGivenSocket(t *testing.T) {
	old, peers := newLoop(t, netio.Options{Backend: netio.Epoll}), newLoop(t, netio.Options{Backend: netio.Portable})
	next := newLoop(t, netio.Options{Backend: netio.Epoll})
	at := peers.listen(loopback)
	before := watchedDescriptors(t)
	s := old.dial(at.Addr())
	old.give(next)
	if watched := watchedDescriptors(t); watched != before+2 {
		t.Fatalf("%d descriptors are watched, want %d", watched, before+2)
	}
	s.Close()
	if watched := watchedDescriptors(t); watched != before+1 {
		t.Errorf("%d descriptors are watched, want %d", watched, before+1)
	}
}

// watchedDescriptors returns the number of descriptors in all epoll sets of the process.
func watchedDescriptors(t *testing.T) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fdinfo/*")
	must(t, err)
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err == nil { // else it was the one of the listing
			n += strings.Count(string(text), "tfd:")
		}
	}
	return n
}
