package relay

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/riptide"
)

// TestLives walks all pairs of states. A session enters just the states that may follow its own, with nothing left of
// the old one.
func TestLives(t *testing.T) {
	for from := range lives {
		for to := range lives {
			w := newWorld(t, 1, simnet.Weather{}, riptide22(), defaultRoute(riptide.New(riptide.Options{})))
			c := w.connect(codec.Hello{})
			w.Run(time.Second)
			r, e := w.proxy.relay, w.proxy.relay.table.peek(w.keyOf(c))
			s := &e.Value
			if s.life != joined {
				t.Fatalf("the session is %v", s.life)
			}
			if s.life = from; from.isHeld() {
				s.hold = &hold{}
				r.waiting.queue(e)
			}
			inLine := r.waiting.inLine
			s.copied, s.dirty, s.dialBy = 7, false, w.Now()
			wrong := r.journal.wrong
			r.enter(w.Now(), e, to)
			if may := slices.Contains(successors[from], to); !may {
				if s.life != from || r.journal.wrong != wrong+1 || s.copied != 7 {
					t.Errorf("%v to %v: the session is %v, %d faults", from, to, s.life, r.journal.wrong-wrong)
				}
				continue
			}
			switch {
			case s.life != to, s.copied != 0, r.journal.wrong != wrong:
				t.Errorf("%v to %v: the session is %v, its copy counts: %v", from, to, s.life, s.copied != 0)
			case from.isHeld() && !to.isHeld() && (s.hold != nil || r.waiting.inLine != 0 && inLine > 0 || s.upstream.Away):
				t.Errorf("%v to %v: the session is still held", from, to)
			case to != gone && !s.dirty:
				t.Errorf("%v to %v: the session is not marked", from, to)
			case to.isEnding() && !s.dialBy.IsZero():
				t.Errorf("%v to %v: the session still dials", from, to)
			case to == gone && r.presence.has(s):
				t.Errorf("%v to %v: the session keeps its name", from, to)
			}
		}
	}
}

// TestEachLifeCanEnd asserts that every state leads to the end, and that no state is its own successor.
func TestEachLifeCanEnd(t *testing.T) {
	for l := range gone {
		if !l.leadsTo(gone) || l.leadsTo(l) {
			t.Errorf("%v cannot end, or follows itself", l)
		}
		if !l.isEnding() && !l.leadsTo(l.ended()) {
			t.Errorf("%v cannot say goodbye", l)
		}
	}
}

// TestSavedLives saves sessions in all states that a record can have. The imported ones are in the same state.
func TestSavedLives(t *testing.T) {
	for _, l := range []life{opening, asking, dialing, refusing, joined, seeking, moving, leaving, ending} {
		for _, by := range []origin{noID, serversID, ownID} {
			var w *world
			if l.hasJoined() {
				w = savedWorld(t, func(*Route) {})
			} else {
				w = halfOpenWorld(t)
			}
			for e := range w.proxy.relay.table.All {
				s := &e.Value
				complete(w.proxy.relay, w.Now(), e)
				s.life, s.origin, s.id, s.earlier = l, by, 7, nil
				if l.isHeld() {
					s.hold = &hold{}
				}
				if l == opening {
					s.hangUp()
					s.upstream, s.dialBy = side{}, time.Time{}
				}
				again := w.reimported(e)
				if again == nil {
					t.Errorf("%v with the origin %d is lost", l, by)
				} else if got := &again.Value; got.life != l || got.origin != by {
					t.Errorf("%v with the origin %d is %v with %d", l, by, got.life, got.origin)
				}
			}
		}
	}
}

// TestFewPredicates bounds the booleans of a session beside its state, and the methods that derive one.
func TestFewPredicates(t *testing.T) {
	const mostBooleans, mostPredicates = 5, 8
	var booleans, predicates []string
	parts := []reflect.Type{reflect.TypeFor[link](), reflect.TypeFor[terminated](), reflect.TypeFor[relayed]()}
	for _, of := range parts {
		for i := range of.NumField() {
			if of.Field(i).Type.Kind() == reflect.Bool {
				booleans = append(booleans, of.Field(i).Name)
			}
		}
	}
	method := regexp.MustCompile(`(?m)^func \(\w+ \*link\) (\w+)\(\) bool`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range method.FindAllSubmatch(text, -1) {
			predicates = append(predicates, string(found[1]))
		}
	}
	if len(booleans) > mostBooleans || len(booleans) == 0 {
		t.Errorf("a session has %d booleans, want at most %d: %v", len(booleans), mostBooleans, booleans)
	}
	if len(predicates) > mostPredicates || len(predicates) == 0 {
		t.Errorf("a session has %d predicates, want at most %d: %v", len(predicates), mostPredicates, predicates)
	}
}
