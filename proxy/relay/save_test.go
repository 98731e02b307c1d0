package relay

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/heavy"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// replaceWorlds makes each new world replace its Relay again and again.
var replaceWorlds bool

// savedRecord is the record of a session with its sockets.
type savedRecord struct {
	bytes   []byte
	sockets []netio.Socket
	kept    session.ID // that the importer has from a pre-copy; 0: it needs bytes
}

// enter makes the session again.
func (s *savedRecord) enter(i *Importer) error {
	if s.kept == 0 {
		return i.session(s.bytes, s.sockets)
	}
	one, err := i.takeCopy(s.kept)
	if err != nil {
		return err
	}
	return one.settle(i, s.sockets)
}

// keep tells an importer which sessions are as in the pre-copy.
func keep(i *Importer, all []savedRecord) {
	i.keep(func(yield func(session.ID) bool) {
		for _, one := range all {
			if one.kept != 0 && !yield(one.kept) {
				return
			}
		}
	})
}

// exportAll exports a Relay: the record of the Relay itself, and those of its sessions.
func exportAll(r *Relay, now time.Time) (shared []byte, all []savedRecord) {
	x := BeginExport(r, now, false, nil)
	x.copied = true
	for e := range r.table.All {
		one := savedRecord{bytes: x.session(e, nil), sockets: x.sockets(e)}
		if x.keeps(e) {
			one.kept = e.Value.serial
		}
		all = append(all, one)
	}
	return x.shared(nil), all
}

// importAll is the reverse of exportAll.
func importAll(t testing.TB, r *Relay, now time.Time, shared []byte, all []savedRecord, copies ...copiedPass) {
	t.Helper()
	i := BeginImport(r, now)
	takeCopies(t, i, 2, copies)
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
}

// replaceRelay replaces the Relay by a new one, which imports all sessions.
func (w *world) replaceRelay() {
	w.t.Helper()
	n, old, now := w.proxy, w.proxy.relay, w.Now()
	w.checkCopies(old)
	shared, all := exportAll(old, now)
	born := now.Add(w.Elapsed().Truncate(time.Millisecond) - w.Elapsed()) // a Relay wakes at whole milliseconds since then
	n.relay = New(w.settings, Options{Seed: 99, Log: zerolog.Nop(), Bans: old.guard.Bans}, n, born)
	n.relay.Attach(0, n.sockets[listenerAddr])
	for _, s := range n.streams { // netio hands over the clients' streams without a session, too
		if _, ok := s.owner.(*listener); ok {
			s.owner = n.relay.listeners[0]
		}
	}
	importAll(w.t, n.relay, now, shared, all, w.copies...)
	w.copies = nil
	w.sameBooks(old, n.relay)
}

// sameBooks checks that an operator sees the same of a Relay and of the one that it was imported from.
func (w *world) sameBooks(old, fresh *Relay) {
	w.t.Helper()
	if got, want := fresh.table.Len(), old.table.Len(); got != want {
		w.t.Fatalf("%d of %d sessions were imported", got, want)
	}
	if got, want := fresh.table.HalfOpen(), old.table.HalfOpen(); got != want {
		w.t.Fatalf("%d sessions are half-open, want %d", got, want)
	}
	if got, want := len(fresh.presence.sessions), len(old.presence.sessions); got != want {
		w.t.Fatalf("%d clients are present, want %d", got, want)
	}
	if got, want := accountOf(fresh), accountOf(old); !reflect.DeepEqual(got, want) {
		w.t.Fatalf("the accounts of sessions are %v, want %v", got, want)
	}
	for _, route := range old.routes {
		for i, s := range route.pool.Status(w.Now()) {
			if got := fresh.pools.Get(route.Upstream.Name).Status(w.Now())[i].Sessions; got != s.Sessions {
				w.t.Fatalf("server %v has %d sessions, want %d", s.Addr, got, s.Sessions)
			}
		}
	}
	before, after := old.Snapshot(w.Now()), fresh.Snapshot(w.Now()) // it restores all connections
	if !reflect.DeepEqual(before, after) {
		w.t.Fatalf("the snapshot was\n%+v\nand is now\n%+v", before, after)
	}
	fresh.Flush(w.Now()) // it samples the connections, and counts the bytes that they hold
	old.sockets.Sockets = &relayNode{buffer: make([]byte, 0, codec.MaxDatagram)}
	for e := range old.table.All {
		if !e.Value.isRelayed() {
			old.dirty.mark(e)
		}
	}
	old.Flush(w.Now())
	was, is := old.Figures(), fresh.Figures()
	for _, c := range old.closing.list {
		if c.over || c.of.Value.life == gone { // a goodbye goes with its session; without one it is not repeated
			was.Tables[stats.TableClosing]--
		}
	}
	if !reflect.DeepEqual(was, is) {
		w.t.Fatalf("the figures were\n%+v\nand are now\n%+v", was, is)
	}
}

// accountOf returns what a Relay counts beside its table, by sessions that come and leave.
func accountOf(r *Relay) map[string]int {
	account := map[string]int{
		"known": r.known.count, "sessions": r.guard.Counts().Sessions, "causes": len(r.journal.causes),
		"addresses": r.guard.Counts().Addresses, "networks": r.guard.Counts().Networks,
	}
	for _, l := range r.listeners {
		account["listener "+l.name] += l.sessions
	}
	for _, route := range r.routes {
		account["IDs of "+route.Name] += route.ids.count
	}
	return account
}

// replaceAgain replaces the Relay at random moments from now on: just after a whole millisecond. A Relay handles a
// deadline at the next whole millisecond, but an importer handles a past one at once.
func (w *world) replaceAgain(rng *rand.Rand) {
	at := w.Elapsed().Truncate(time.Millisecond) + time.Duration(1+rng.IntN(100))*time.Millisecond + time.Microsecond
	w.precopyLater(rand.New(rand.NewPCG(uint64(at), 10)), at-w.Elapsed())
	w.After(at-w.Elapsed(), func() {
		w.replaceRelay()
		w.replaceAgain(rng)
	})
}

// TestReplacedRelay plays a session of each pair of protocols twice. Once the Relay is replaced again and again. All
// datagrams must be the same, at the same times.
func TestReplacedRelay(t *testing.T) {
	family := members(oneDialect)
	seeds := simnet.Seeds(2)
	if !heavy.Runs() {
		seeds = seeds[:1]
	}
	for _, client := range family {
		for _, upstream := range family {
			if isLeftToHeavy(client, upstream) {
				continue
			}
			t.Run(client.String()+" to "+upstream.String(), func(t *testing.T) {
				t.Parallel()
				for _, seed := range seeds {
					plain := matrixRun(t, seed, client, upstream, func(*world) {})
					replaced := matrixRun(t, seed, client, upstream, func(w *world) {
						w.replaceAgain(rand.New(rand.NewPCG(seed, 8)))
					})
					if plain.Digest() != replaced.Digest() {
						t.Errorf("seed %d: the datagrams differ", seed)
					}
					if replaced.unchanged == 0 {
						t.Errorf("seed %d: a pre-copy was never of use", seed)
					}
				}
			})
		}
	}
}

// TestReplacedScenarios runs other tests of this package in worlds whose Relay is replaced again and again.
func TestReplacedScenarios(t *testing.T) {
	heavy.Skip(t)
	defer func() { replaceWorlds = false }()
	replaceWorlds = true
	for name, test := range map[string]func(*testing.T){
		"aggregates":                TestAggregatesThereAndBack,
		"aggregates on the wire":    TestAggregateOnTheWire,
		"aggregate before goodbye":  TestAggregateLeavesBeforeTheGoodbye,
		"notify to RakNet":          TestNotifyGoesToRakNetAndBack,
		"notify to Riptide 2.0":     TestNotifyBecomesAnOrdinaryMessageOf20,
		"hold over a restart":       TestHoldOverARestart,
		"hold, RUDP":                TestHoldRUDP,
		"hold, another server":      TestHoldFindsAnotherServer,
		"hold ends":                 TestHoldEnds,
		"hold, client ID":           TestHoldKeepsTheClientID,
		"hold, bounded":             TestHoldIsBounded,
		"hold, refused":             TestHoldBelievesARefusal,
		"hold, Riptide in line":     TestHoldOverRiptideRestarts,
		"hold, streams":             TestHoldFindsAStreamServer,
		"hold, client IDs back":     TestHoldTakesClientIDsBack,
		"move":                      TestMove,
		"move to no server":         TestMoveToNobody,
		"move from a dying server":  TestMoveFromADyingServer,
		"move loses no answers":     TestMoveLosesNoAnswers,
		"move, RUDP":                TestMoveRUDP,
		"move from a busy server":   TestMoveFromATalkingServer,
		"join in bad weather":       TestJoinInBadWeather,
		"redial":                    TestRedial,
		"redial is bounded":         TestRedialIsBounded,
		"redial of a known client":  TestRedialOfAKnownClient,
		"pace":                      TestPaceKeepsServersFromBlocking,
		"pace of relayed datagrams": TestPaceOfRelayedDatagrams,
		"relayed":                   TestRelayedSessions,
		"relayed with limits":       TestRelayedSessionsHaveLimits,
		"relayed through a gate":    TestGatekeptRelay,
	} {
		t.Run(name, test)
	}
}
