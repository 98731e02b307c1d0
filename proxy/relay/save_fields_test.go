package relay

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
)

// derivedFields are the fields of a session that a record does not have, with the reason.
var derivedFields = map[string]string{
	"hello.Patient":                    "set for each server that is dialled",
	"holding":                          "counted again by the next Flush",
	"relayed":                          "belongs to this process's Forwarder",
	"dirty":                            "the next Flush visits all imported sessions",
	"resent":                           "the client's next datagram shows the way again",
	"touched":                          "the next Flush visits both sides of all imported sessions",
	"client.due":                       "asked again by the next Flush",
	"upstream.due":                     "asked again by the next Flush",
	"client.weight.held":               "asked again by the next Flush",
	"upstream.weight.held":             "asked again by the next Flush",
	"client.weight.queued":             "asked again by the next Flush",
	"upstream.weight.queued":           "asked again by the next Flush",
	"life":                             "from several fields: TestSavedLives",
	"origin":                           "from several fields: TestSavedLives",
	"copied":                           "the new Relay has copied nothing",
	"spared":                           "as the pauses of the new Relay",
	"refusedFrom":                      "saved if there are refusals, as a time",
	"refusedAt":                        "of this process's Forwarder",
	"waits":                            "an export parks the waiting datagrams",
	"gate":                             "of relayed sessions: TestGatekeptRelay",
	"pending":                          "restored before it is looked at",
	"meter.own.sessions":               "counted again",
	"meter.own.queued":                 "counted again by the next Flush",
	"hello.Tentative":                  "set for each server that is dialled",
	"hello.Held":                       "set for each server that is dialled",
	"client.Sender.order.load.bytes":   "counted again",
	"client.Sender.order.load.count":   "counted again",
	"upstream.Sender.order.load.bytes": "counted again",
	"upstream.Sender.order.load.count": "counted again",
	"client.Sender.kept.load.bytes":    "counted again",
	"client.Sender.kept.load.count":    "counted again",
	"upstream.Sender.kept.load.bytes":  "counted again",
	"upstream.Sender.kept.load.count":  "counted again",
	"client.Sender.kept.lost":          "counted again",
	"upstream.Sender.kept.lost":        "counted again",
	"meter.own.buckets.Handshakes":     "not used for sessions",
}

// followed are the pointers in a session whose structs belong to it.
var followed = []string{"terminated", "via", "preamble", "hold", "earlier", "earlier.preamble"}

// TestSavedFields changes each plain field of a session by itself, in some states. The imported session must have the
// changed value, or the import must refuse the record. So a later field cannot be forgotten.
func TestSavedFields(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	lost, restored := make(map[string]bool), make(map[string]bool)
	for name, state := range map[string]func(*testing.T) *world{
		"established": func(t *testing.T) *world { return savedWorld(t, func(*Route) {}) },
		"held":        heldWorld,
		"half-open":   halfOpenWorld,
	} {
		t.Run(name, func(t *testing.T) {
			w := state(t)
			r := w.proxy.relay
			for e := range r.table.All {
				complete(r, w.Now(), e)
				e.Value.via, e.Value.preamble = &trustedProxy{addr: secondAddr}, &preamble{[]byte("header"), policy.HeadersEvery}
				w.lookAtFields(e, lost, restored)
			}
		})
	}
	for path := range lost {
		t.Errorf("%s is neither restored nor in derivedFields", path)
	}
	for path, found := range restored {
		if !found {
			t.Errorf("%s: all records with a changed value were refused", path)
		}
	}
	if len(restored) < 65 {
		t.Errorf("only %d fields: %v", len(restored), slices.Sorted(maps.Keys(restored)))
	}
}

// savedWorld has one established session.
func savedWorld(t *testing.T, change func(*Route)) *world {
	route := defaultRoute(raknet.New(raknet.Options{}))
	change(route)
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet.New(raknet.Options{}), route)
	w.connect(codec.Hello{Identity: 70, Data: []byte("data")})
	w.Run(time.Second)
	return w
}

// heldWorld has one session that has lost its server.
func heldWorld(t *testing.T) *world {
	w := savedWorld(t, func(r *Route) { r.Failover.Hold = time.Minute })
	r := w.proxy.relay
	for e := range r.table.All {
		r.abandonUpstream(w.Now(), e)
	}
	r.Flush(w.Now())
	return w
}

// halfOpenWorld has one session whose server does not answer.
func halfOpenWorld(t *testing.T) *world {
	rak := raknet.New(raknet.Options{})
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, rak, defaultRoute(rak))
	w.servers[0].down = true
	w.join(codec.Hello{Identity: 70})
	w.Run(500 * time.Millisecond)
	for e := range w.proxy.relay.table.All {
		e.Value.earlier = &earlier{preamble: &preamble{when: policy.HeadersEvery}}
	}
	return w
}

// lookAtFields changes and restores each field of a session.
func (w *world) lookAtFields(e *Entry, lost, found map[string]bool) {
	w.t.Helper()
	fields := make(map[string]reflect.Value)
	collectFields(reflect.ValueOf(&e.Value).Elem(), "", fields)
	for path, field := range fields {
		old := reflect.New(field.Type()).Elem()
		old.Set(field)
		if w.changeField(field) {
			if !found[path] {
				found[path] = false // known
			}
			changed := reflect.New(field.Type()).Elem()
			changed.Set(field)
			if restored := w.reimported(e); restored != nil {
				again := make(map[string]reflect.Value)
				collectFields(reflect.ValueOf(&restored.Value).Elem(), "", again)
				got, ok := again[path]
				if found[path] = true; !ok || !codectest.SameField(got, changed) {
					lost[path] = true
				}
			}
		}
		field.Set(old)
	}
}

// reimported returns the session after an export and an import. It returns nil if its record is refused. A changed
// field may also contradict others, so that the export panics.
func (w *world) reimported(e *Entry) (restored *Entry) {
	defer func() {
		if recover() != nil {
			restored = nil
		}
	}()
	old, now := w.proxy.relay, w.Now()
	x := BeginExport(old, now, false, nil)
	record, sockets := x.session(e, nil), x.sockets(e)
	for i, s := range sockets {
		copied := *s.(*simSocket)
		sockets[i] = &copied
	}
	fresh := New(w.settings, Options{Seed: 99, Log: zerolog.Nop(), Bans: ratelimit.NewBans(banTerms)}, w.proxy,
		old.born)
	fresh.Attach(0, &simSocket{addr: listenerAddr})
	i := BeginImport(fresh, now)
	if i.session(record, sockets) != nil {
		return nil
	}
	for restored = range fresh.table.All {
		if !complete(fresh, now, restored) {
			return nil
		}
	}
	return restored
}

// collectFields lists the plain fields of a struct by their path.
func collectFields(v reflect.Value, path string, fields map[string]reflect.Value) {
	switch {
	case derivedFields[path] != "":
	case v.Kind() == reflect.Pointer:
		if slices.Contains(followed, path) && !v.IsNil() {
			collectFields(v.Elem(), path, fields)
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			collectFields(v.Index(i), path+"."+string(rune('0'+i)), fields)
		}
	case v.Kind() == reflect.Struct && v.Type().PkgPath() != "time" && v.Type().PkgPath() != "net/netip":
		for i := range v.NumField() {
			f, field := v.Field(i), v.Type().Field(i)
			f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem() // also if it is not exported
			name := strings.TrimPrefix(path+"."+field.Name, ".")
			if field.Name == "terminated" && !f.IsNil() {
				f, name = f.Elem(), path
			}
			collectFields(f, name, fields)
		}
	default:
		fields[path] = v
	}
}

// changeField changes a field to another value, if its type is a plain one.
func (w *world) changeField(field reflect.Value) bool {
	switch {
	case field.Type() == reflect.TypeFor[ratelimit.Bucket]():
		field.SetInt(int64(w.Elapsed() + time.Second))
	case field.Type() == reflect.TypeFor[netip.AddrPort]():
		field.Set(reflect.ValueOf(serverAddr))
	default:
		return codectest.ChangeField(field, w.Now())
	}
	return true
}
