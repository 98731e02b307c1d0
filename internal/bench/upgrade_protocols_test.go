package bench

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tidegate/codec"
)

// TestRUDPRate bounds the packets of all RUDP sessions together, and their number.
func TestRUDPRate(t *testing.T) {
	for sessions, want := range map[int]uint8{1: 100, 300: 60, 3000: 10, 10_000: 10, 50_000: 10} {
		if got := rudpRate(sessions); got != want {
			t.Errorf("%d sessions: %d packets a second, want %d", sessions, got, want)
		}
	}
	var listeners []upgradeListener
	for _, p := range messageProtocols {
		listeners = append(listeners, upgradeListener{protocol: p})
	}
	of := make(map[string]int)
	for i := range 6000 {
		of[listenerOf(listeners, i).protocol.Spec().Name]++
	}
	for protocol, n := range of {
		want := 1000 + (1000-mostRUDP)/5
		if protocol == "rudp" {
			want = mostRUDP
		}
		if n != want {
			t.Errorf("%d of 6,000 clients speak %s, want %d", n, protocol, want)
		}
	}
	for _, p := range upgradeProtocols(7) {
		if p.Spec().Name == "rudp" && p == messageProtocols[4] {
			t.Error("RUDP has its usual rate")
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
	log := `{"protocol":"a","reason":"timed-out","by":"client"}` + "\n" +
		`{"protocol":"other","reason":"timed-out","by":"client"}` + "\n"
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
