package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"tidegate/codec/raknet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/proxy/relay/saved"
	"tidegate/session"
)

// copiedPass is what a pass of a pre-copy gives the successor.
type copiedPass struct {
	At      time.Time
	Batch   []byte
	sockets map[session.ID][]netio.Socket // of all sessions at that moment
}

// copyPass makes a pass of a pre-copy.
func copyPass(r *Relay, now time.Time) copiedPass {
	c, b := &r.precopy, copiedPass{At: now, sockets: make(map[session.ID][]netio.Socket)}
	for first := true; first || c.pass != nil; first = false {
		b.Batch = append(b.Batch, c.piece(r, now)...)
	}
	x := Exporter{relay: r, now: now}
	for e := range r.table.All {
		b.sockets[e.Value.serial] = x.sockets(e)
	}
	return b
}

// sessions returns how many sessions a batch has.
func (b copiedPass) sessions(t testing.TB) (n int) {
	eachCopy(t, b.Batch, func([]byte) { n++ })
	return n
}

// eachCopy calls f with each record of a batch, which has one moment.
func eachCopy(t testing.TB, batch []byte, f func(record []byte)) {
	t.Helper()
	for len(batch) > 0 {
		after, n := binary.Uvarint(batch)
		sockets, rest, ok := cutPiece(batch[max(n, 0):])
		piece, rest, whole := cutPiece(rest)
		if n <= 0 || after != 0 || !ok || !whole || len(sockets) > 0 {
			t.Fatal("a batch that cannot be read")
		}
		f(piece)
		batch = rest
	}
}

// takeCopies gives an importer the batches of a pre-copy. One of every few sessions has its sockets there already, and
// enters. Some of these change or end before the standstill.
func takeCopies(t testing.TB, i *Importer, every session.ID, batches []copiedPass) {
	t.Helper()
	for _, b := range batches {
		eachCopy(t, b.Batch, func(of []byte) {
			var v saved.Session
			if err := record.Read(of, &v); err != nil {
				t.Fatal(err)
			}
			if session.ID(v.Serial)%every == 0 {
				i.copied(of, b.At, nil, b.sockets[session.ID(v.Serial)], true)
			} else {
				i.copied(of, b.At, nil, nil, false)
			}
		})
	}
}

// precopyLater makes passes of a pre-copy at random moments within a time.
func (w *world) precopyLater(rng *rand.Rand, within time.Duration) {
	w.copies = nil
	w.proxy.relay.precopy.start(nil)
	for range 2 {
		w.After(time.Duration(rng.Int64N(int64(within))), func() {
			w.copies = append(w.copies, copyPass(w.proxy.relay, w.Now()))
		})
	}
}

// checkCopies asserts that a session is unchanged since its last copy, if the Relay says so: another record with the
// same moment of saving is the same. The use of limits that other sessions share may have changed.
func (w *world) checkCopies(r *Relay) {
	w.t.Helper()
	for _, b := range w.copies {
		eachCopy(w.t, b.Batch, func(of []byte) {
			var before saved.Session
			if err := record.Read(of, &before); err != nil {
				w.t.Fatal(err)
			}
			for e := range r.table.All {
				if e.Value.serial != session.ID(before.Serial) || !r.precopy.has(&e.Value) ||
					!b.isLast(w.t, w.copies, e.Value.serial) {
					continue
				}
				x := Exporter{relay: r, now: b.At}
				var now saved.Session
				if err := record.Read(x.session(e, nil), &now); err != nil {
					w.t.Fatal(err)
				}
				now.Meter.Address, now.Meter.Network = before.Meter.Address, before.Meter.Network
				if !reflect.DeepEqual(now, before) {
					w.t.Fatalf("session %v has changed since its copy, and is not marked:\n%+v\n%+v", before.Serial, before, now)
				}
				w.unchanged++
			}
		})
	}
}

// isLast reports whether no later batch has the session.
func (b copiedPass) isLast(t testing.TB, of []copiedPass, id session.ID) bool {
	for _, later := range of {
		if later.At.After(b.At) {
			last := true
			eachCopy(t, later.Batch, func(b []byte) {
				var v saved.Session
				last = last && (record.Read(b, &v) != nil || session.ID(v.Serial) != id)
			})
			if !last {
				return false
			}
		}
	}
	return true
}

// TestPrecopy asserts that a pre-copy writes unchanged sessions once, and changed ones again. The import restores no
// connection of an unchanged session again, and all sessions go on.
func TestPrecopy(t *testing.T) {
	const sessions = 40
	m := newMass(t, sessions, raknet.New(raknet.Options{}), policy.ModeTerminate, func(*Settings) {})
	old := m.relay
	old.precopy.start(nil)
	var batches []copiedPass
	pass := func(want int) {
		t.Helper()
		batches = append(batches, copyPass(old, m.now))
		if got := batches[len(batches)-1].sessions(t); got != want {
			t.Fatalf("a pass copies %d sessions, want %d", got, want)
		}
	}
	pass(sessions)
	pass(0)
	for e := range old.table.All {
		if i := e.Value.serial; i%4 == 0 {
			old.dirty.mark(e)
		}
	}
	pass(0) // they are about to change
	old.Flush(m.now)
	pass(sessions / 4)
	for e := range old.table.All {
		if i := e.Value.serial; i%8 == 0 {
			old.dirty.mark(e)
		}
	}
	shared, all := exportAll(old, m.now)
	r := m.successor(t)
	i := BeginImport(r, m.now)
	takeCopies(t, i, 1, batches)
	if err := i.shared(shared, noSocket); err != nil {
		t.Fatal(err)
	}
	keep(i, all)
	for _, one := range all {
		if err := one.enter(i); err != nil {
			t.Fatal(err)
		}
	}
	restored := 0
	for e := range r.table.All {
		if e.Value.isPending() && e.Value.pending.restored != nil {
			restored++
		}
	}
	if restored != sessions-sessions/8 {
		t.Errorf("%d of %d sessions are restored already", restored, sessions)
	}
	i.end()
	m.relay = r
	for n := range sessions {
		m.speak(massAddr(n))
	}
	if c := &r.counters; c.Opened != sessions || c.Closed != 0 || pendingOf(r) != 0 {
		t.Errorf("%d sessions opened, %d closed, %d pending", c.Opened, c.Closed, pendingOf(r))
	}
}

// TestPrecopyOfRelayedSessions asserts that each input of a relayed session makes its copy void, and no other one. The
// importer has all sessions as they were.
func TestPrecopyOfRelayedSessions(t *testing.T) {
	for name, input := range map[string]func(*mass, *Entry){
		"nothing": func(*mass, *Entry) {},
		"the client's datagram": func(m *mass, e *Entry) {
			m.relay.Receive(m.now, m.listener, e.Key.Client, []byte{0x84, 1})
		},
		"the server's datagram": func(m *mass, e *Entry) {
			m.relay.Receive(m.now, e.Value.socket, e.Value.server.Addr, []byte{1})
		},
		"an empty datagram": func(m *mass, e *Entry) {
			m.relay.Receive(m.now, e.Value.socket, e.Value.server.Addr, nil)
		},
		"news of a closed port":  func(m *mass, e *Entry) { m.relay.Failed(m.now, e.Value.socket, errors.New("refused")) },
		"a look at the deadline": func(m *mass, e *Entry) { m.relay.expireRelayed(m.now, e) },
	} {
		t.Run(name, func(t *testing.T) { copyRelayed(t, input) })
	}
}

func copyRelayed(t *testing.T, input func(*mass, *Entry)) {
	const sessions = 6
	m := newMass(t, sessions, raknet.New(raknet.Options{}), policy.ModeRelay, func(*Settings) {})
	old := m.relay
	old.precopy.start(nil)
	w := &world{t: t, copies: []copiedPass{copyPass(old, m.now)}}
	if n := w.copies[0].sessions(t); n != sessions {
		t.Fatalf("a pass copies %d sessions, want %d", n, sessions)
	}
	m.now = m.now.Add(time.Second)
	for e := range old.table.All {
		input(m, e)
		break
	}
	if w.checkCopies(old); w.unchanged < sessions-1 {
		t.Errorf("only %d of %d copies are valid", w.unchanged, sessions)
	}
	shared, records := exportAll(old, m.now)
	r := m.successor(t)
	importAll(t, r, m.now, shared, records, w.copies...)
	_, again := exportAll(r, m.now)
	for i := range records {
		if !bytes.Equal(again[i].bytes, records[i].bytes) {
			t.Error("the importer has another session")
		}
	}
}

// TestMissingCopy asserts that a record that refers to a missing copy costs its session only.
func TestMissingCopy(t *testing.T) {
	m := newMass(t, 3, raknet.New(raknet.Options{}), policy.ModeTerminate, func(*Settings) {})
	old := m.relay
	old.precopy.start(nil)
	batch := copyPass(old, m.now)
	shared, all := exportAll(old, m.now)
	i := BeginImport(m.successor(t), m.now)
	n := 0
	eachCopy(t, batch.Batch, func(b []byte) {
		if n++; n < 3 {
			i.copied(b, m.now, nil, nil, false)
		}
	})
	i.copied([]byte("damaged"), m.now, nil, nil, false)
	if err := i.shared(shared, noSocket); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, one := range all {
		if one.enter(i) != nil {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d sessions are lost, want 1", lost)
	}
}

// TestCopyWithAnotherSocket asserts that a session has the socket that its names mean at the standstill. Its copy was
// made ready with another one: numbers of descriptors are used again.
func TestCopyWithAnotherSocket(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
		m := newMass(t, 3, raknet.New(raknet.Options{}), mode, func(*Settings) {})
		old := m.relay
		old.precopy.start(nil)
		copies := copyPass(old, m.now)
		shared, all := exportAll(old, m.now)
		right := make(map[session.ID]netio.Socket)
		for i := range all {
			right[all[i].kept] = all[i].sockets[0]
			if i > 0 { // as if the first session was the only one to keep its descriptor
				s := all[i].sockets[0].(*simSocket)
				copies.sockets[all[i].kept] = []netio.Socket{&simSocket{addr: playerAddr(90 + i), peer: s.peer}}
			}
		}
		r := m.successor(t)
		i := BeginImport(r, m.now)
		takeCopies(t, i, 1, []copiedPass{copies})
		if r.table.Len() != len(all) {
			t.Fatalf("%v: %d of %d sessions enter before the standstill", mode, r.table.Len(), len(all))
		}
		if err := i.shared(shared, noSocket); err != nil {
			t.Fatal(err)
		}
		keep(i, all)
		for _, one := range all {
			if err := one.enter(i); err != nil {
				t.Fatal(err)
			}
		}
		i.end()
		for e := range r.table.All {
			session := &e.Value
			if session.socket != right[session.serial] || session.socket.Owner() != any(e) {
				t.Errorf("%v: session %v has the socket %v, or that has another session", mode, session.serial,
					session.socket.Addr())
			}
		}
		for id, wrong := range copies.sockets {
			if wrong[0] != right[id] && wrong[0].Owner() != nil {
				t.Errorf("%v: session %v has a socket of another session", mode, id)
			}
		}
		if got, want := accountOf(r), accountOf(old); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: the accounts are %v, want %v", mode, got, want)
		}
	}
}

// TestCopiesAreForOneSuccessor asserts that other records of a session have its body: its copy may never arrive, or
// belong to a successor that has failed.
func TestCopiesAreForOneSuccessor(t *testing.T) {
	m := newMass(t, 3, raknet.New(raknet.Options{}), policy.ModeTerminate, func(*Settings) {})
	r := m.relay
	r.precopy.start(nil)
	copyPass(r, m.now)
	has := func(what string, b []byte, err error) {
		t.Helper()
		var v saved.Session
		if err != nil || record.Read(b, &v) != nil || v.Body == nil {
			t.Errorf("%s: %+v, %v", what, v, err)
		}
	}
	for e := range r.table.All {
		if !r.precopy.has(&e.Value) {
			t.Fatal("a session is not copied")
		}
		if BeginExport(r, m.now, false, nil).keeps(e) {
			t.Error("a freeze without a pre-copy keeps a session")
		}
		has("freeze without a pre-copy", BeginExport(r, m.now, false, nil).session(e, nil), nil)
		b, err := r.writeDown(m.now, e)
		has("a session that travels", b, err)
	}
}

// TestReloadEndsAPrecopy asserts that a reload makes all copies void: the records of rules change with it.
func TestReloadEndsAPrecopy(t *testing.T) {
	m := newMass(t, 3, raknet.New(raknet.Options{}), policy.ModeTerminate, func(*Settings) {})
	r := m.relay
	r.precopy.start(nil)
	copyPass(r, m.now)
	r.Reload(m.now, m.settings, nil)
	for e := range r.table.All {
		if r.precopy.has(&e.Value) {
			t.Fatal("a copy is valid after a reload")
		}
	}
	if copyPass(r, m.now).sessions(t) > 0 {
		t.Error("the pre-copy goes on after a reload")
	}
}
