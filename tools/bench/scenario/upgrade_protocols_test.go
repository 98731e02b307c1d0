package scenario

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/testkit/await"
)

// TestKindsOfClients holds kinds of clients to their bounds. The others share the rest evenly.
func TestKindsOfClients(t *testing.T) {
	var listeners []upgradeListener
	free := 0
	for _, k := range upgradeKinds() {
		listeners = append(listeners, upgradeListener{upgradeKind: k})
		if k.most == 0 {
			free++
		}
	}
	if len(listeners) != numKinds {
		t.Errorf("%d kinds, want %d", len(listeners), numKinds)
	}
	of, most, rest := make(map[string]int), make(map[string]int), 10_000
	for _, l := range listeners {
		most[l.name] = l.most
		rest -= l.most
	}
	for i := range 10_000 {
		of[listenerOf(listeners, i).name]++
	}
	for name, n := range of {
		if want := most[name]; want > 0 && n != want {
			t.Errorf("%d clients speak %s, want %d", n, name, want)
		} else if share := rest / free; want == 0 && (n < share-3 || n > share+3) {
			t.Errorf("%d clients speak %s, want about %d", n, name, share)
		}
	}
}

// TestByProtocol counts sessions, ends and reasons of each protocol, from the clients and from the access log.
func TestByProtocol(t *testing.T) {
	reliable := form{mode: codec.Reliable}
	b := &upgradeBench{dir: t.TempDir(), players: []*upgradePlayer{
		{protocol: "a", form: reliable, seen: make([]bool, 5), got: 3, longest: 2e6, ended: endedSince, why: codec.TimedOut},
		{protocol: "a", form: reliable, seen: make([]bool, 2), got: 2, longest: 1e6},
		{protocol: "b", seen: make([]bool, 5), ended: endedBefore, why: codec.Closed},
	}}
	log := `{"listener":"a","reason":"timed-out","by":"client"}` + "\n" +
		`{"listener":"other","reason":"timed-out","by":"client"}` + "\n"
	if err := os.WriteFile(filepath.Join(b.dir, accessFile), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Upgraded{Protocols: []string{"a", "b"}}
	for _, name := range r.Protocols {
		r.Each = append(r.Each, UpgradedProtocol{Name: name, Clients: make(map[string]int), Proxy: make(map[string]int)})
	}
	if err := b.byProtocol(r); err != nil {
		t.Fatal(err)
	}
	want := []UpgradedProtocol{
		{
			Name: "a", Sessions: 2, Ended: 1, Lost: 2, Longest: 2,
			Clients: map[string]int{"timed-out": 1}, Proxy: map[string]int{"timed-out by client": 1},
		},
		{Name: "b", Sessions: 1, Earlier: 1, Clients: map[string]int{"closed": 1}, Proxy: map[string]int{}},
	}
	if !reflect.DeepEqual(r.Each, want) {
		t.Errorf("%+v, want %+v", r.Each, want)
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil || !strings.Contains(text.String(),
		`a sessions ended: at clients 1 "timed-out"; at Tidegate 1 "timed-out by client"`) {
		t.Errorf("%s, %v", text.String(), err)
	}
}

// TestReadLog keeps the lines that the measurement waits for, after any number of others.
func TestReadLog(t *testing.T) {
	b := &upgradeBench{lines: make(chan map[string]any, 4)}
	text := strings.Repeat(`{"level":"warn","message":"dropped"}`+"\n", 100) +
		`{"level":"info","message":"` + lineHanded + `"}` + "\n" + `{"level":"error","message":"broken"}` + "\nplain\n"
	b.read(io.NopCloser(strings.NewReader(text)))
	if len(b.lines) != 3 || (<-b.lines)["message"] != lineHanded {
		t.Errorf("kept %d lines more, want the handover, an error and a line that is no JSON", len(b.lines))
	}
}

// TestBusyMachine asserts that a reader learns of figures that only say something of the machine.
func TestBusyMachine(t *testing.T) {
	for _, busy := range []bool{true, false} {
		var b strings.Builder
		r := Upgraded{Usual: 12, Earlier: 3, TooBusy: busy}
		const want = "clients waited for 12.0 ms, and 3 sessions ended: the machine is too busy"
		if err := r.Print(&b); err != nil || strings.Contains(b.String(), want) != busy {
			t.Errorf("busy %v: %v\n%s", busy, err, &b)
		}
	}
}

// TestKindsPlay lets a client of each kind play with its game server. Each message returns.
func TestKindsPlay(t *testing.T) {
	o := &Options{Context: t.Context(), Size: 100, Sessions: numKinds, Rate: 100}
	b := &upgradeBench{Options: o, epoch: time.Now()}
	var err error
	if b.endpoint, err = endpoint.New(endpoint.Options[*upgradePlayer]{Event: b.event}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.endpoint.Close() }()
	listeners, err := startGames(upgradeKinds())
	for i := range listeners {
		defer listeners[i].game.stop()
		listeners[i].at = listeners[i].game.addr()
	}
	if err == nil {
		err = b.join(listeners)
	}
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "each kind has answers", func() bool {
		if err := b.play(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(b.players, func(p *upgradePlayer) bool { return p.got < 3 })
	})
	for _, p := range b.players {
		if p.ended != endedNever || b.doubled > 0 {
			t.Errorf("the session of %s has ended, or one of %d doubled messages", p.protocol, b.doubled)
		}
	}
}
