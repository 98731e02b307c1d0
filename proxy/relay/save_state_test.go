package relay

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"tidegate/codec/codectest"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/ratelimit"
)

// Fates of a field in an upgrade.
const (
	fateKept = "carried" // the successor has its value
	fateAnew = "anew"    // made again, from the configuration or the sessions
	fateLost = "lost"    // and no player notices
)

// fatesOfRelay says what becomes of each field of a Relay in an upgrade. A struct of our own has one line, or a line
// for each of its fields.
const fatesOfRelay = `
abnormal             anew     from the options of the process
arrivals             carried
backlog.Lossy        carried
backlog.read         lost     the next turn counts again
backlog.tells        anew     known from the first turn on
backlog.told         lost     the log tells of a flood once more
bansEnforced         lost     the successor looks at all bans when it begins
born                 anew     records have moments
calls                lost     sessions with stacks end before an upgrade
carrier              anew     memory for one message
calling              anew     memory for one call of a module
checkers             anew     servers are asked again; the Pools have the last answers
closing              anew     from the sessions
counters             carried
dirty                anew     the first Flush visits all sessions
replaced             anew     a successor may begin stacks
drainBy              carried
draining             carried
drops                lost     recent drops, for the command why
entering             lost     a predecessor has no predecessor any more
farewell             carried
guard.Bans           carried
guard.all.buckets    carried
guard.all.queued     anew     counted again by the next Flush
guard.all.sessions   anew     counted again
guard.backlog        anew     a part of the Relay
guard.byAddress      carried  as long as an address has a session
guard.byNetwork      carried  as long as a network has a session
guard.counters       anew     a part of the Relay
guard.filters        carried  the counts of rules
guard.limits         lost     an address without a session has one burst more
guard.none           anew     always empty
guard.seen           lost     under pressure, a client asks twice more
guard.spending       lost     other nodes report again within a second, and this one counts anew
guard.start          anew     records have moments
handed               lost     a few datagrams between two loops
held                 anew     counted again by the next Flush
identities           anew     random
journal.access       anew     from the options of the process
journal.causes       carried
journal.forwarding   lost     limits of the log
journal.hide         anew     the configuration
journal.lines        lost     limits of the log
journal.log          anew     from the options of the process
journal.wrong        lost     limits of the log
known                anew     the kernel's filter learns the clients of all sessions
lastListener         anew     keys do not leave the process
leaving              lost     there is no upgrade then
listeners            carried  their texts and proxies' headers
locals               anew     the configuration
offload              anew     sessions are forwarded again
paths.blocked        anew     each session has its parked datagrams
paths.byKey          carried  what has left lately
paths.moved          anew     the first turn has moved none
paths.shard          anew     the number of loops
paths.tidyAt         anew     as for an empty table
pingers              anew     servers are asked again
queriers             anew     servers are asked again
places               anew     counted again
pools                carried
precopy              anew     the new Relay has copied nothing
presence             anew     from the sessions
ready                lost     sessions with stacks end before an upgrade
retired              carried
routes               carried  with routes that a reload has removed
rulesEnforced        lost     the successor looks at all rules when it begins
samples.born         anew     records have moments
samples.tallies      carried
samples.toClients.Leg       carried
samples.toClients.Queued    anew  measured again
samples.toClients.Queues    carried
samples.toUpstreams.Leg     carried
samples.toUpstreams.Queued  anew  measured again
samples.toUpstreams.Queues  carried
serials.last         carried
serials.step         anew     the number of loops
settings             anew     the configuration
shard                anew     the number of loops
sockets              anew     parts of the Relay
stood                anew     the pause of the upgrade is told to the sessions
table                carried
waiting              anew     each session has its place
walks                lost     those who began them have ended
watches              lost     captures end
ways                 lost     the next datagram from another node shows the way again
`

// TestFatesOfState fails when the fate of a field in an upgrade was not thought about.
func TestFatesOfState(t *testing.T) {
	fates := readFates(t, fatesOfRelay)
	used := make(map[string]bool)
	for _, path := range unfated(reflect.TypeFor[Relay](), "", fates, used) {
		t.Errorf("Relay.%s has no fate in an upgrade: carry it, or say why not", path)
	}
	for path := range fates {
		if !used[path] {
			t.Errorf("Relay has no field %s", path)
		}
	}
}

// readFates returns the fates by the paths of fields.
func readFates(t *testing.T, text string) map[string]string {
	fates := make(map[string]string)
	for line := range strings.Lines(strings.TrimSpace(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || !slices.Contains([]string{fateKept, fateAnew, fateLost}, words[1]) ||
			words[1] != fateKept && len(words) == 2 {
			t.Fatalf("line %q has no fate, or no reason", line)
		}
		fates[words[0]] = words[1]
	}
	return fates
}

// unfated returns the paths of fields without a fate.
func unfated(of reflect.Type, before string, fates map[string]string, used map[string]bool) (all []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		path := before + f.Name
		switch {
		case fates[path] != "":
			used[path] = true
		case f.Type.Kind() == reflect.Struct && strings.HasPrefix(f.Type.PkgPath(), "tidegate/"):
			all = append(all, unfated(f.Type, path+".", fates, used)...)
		default:
			all = append(all, path)
		}
	}
	return all
}

// TestCarriedState changes each plain field of a Relay that a successor must have, by itself. The successor must have
// the changed value.
func TestCarriedState(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	rak := raknet.New(raknet.Options{})
	w := newWorld(t, 1, simnet.Weather{}, rak, defaultRoute(rak))
	w.Run(time.Second)
	old := w.proxy.relay
	changed := 0
	for path, fate := range readFates(t, fatesOfRelay) {
		if fate != fateKept {
			continue
		}
		for at, field := range plainFields(fieldAt(old, path), path) {
			before := reflect.New(field.Type()).Elem()
			before.Set(field)
			if !w.changeField(field) {
				continue
			}
			changed++
			got := plainFields(fieldAt(w.successor(), path), path)[at]
			if !got.IsValid() || !codectest.SameField(got, field) {
				t.Errorf("the successor has %v in %s, not %v", got, at, field)
			}
			field.Set(before)
		}
	}
	if changed < 150 {
		t.Errorf("only %d fields were changed", changed)
	}
}

// successor returns a Relay that has taken over the state of the proxy's, without its sessions.
func (w *world) successor() *Relay {
	w.t.Helper()
	r := New(w.settings, Options{Seed: 99, Log: zerolog.Nop(), Bans: ratelimit.NewBans(banTerms)}, w.proxy,
		w.proxy.relay.born)
	r.Attach(0, &simSocket{addr: listenerAddr})
	x := BeginExport(w.proxy.relay, w.Now(), false, nil)
	if err := BeginImport(r, w.Now()).shared(x.shared(nil), nil); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// fieldAt returns a field of a Relay by its path.
func fieldAt(r *Relay, path string) reflect.Value {
	v := reflect.ValueOf(r).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
		v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // also if it is not exported
	}
	return v
}

// plainFields returns the plain fields in a field, or the field itself.
func plainFields(v reflect.Value, path string) map[string]reflect.Value {
	fields := make(map[string]reflect.Value)
	collectFields(v, path, fields)
	return fields
}
