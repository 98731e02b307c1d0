package enet

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plantMutants makes TestMutants run the suite. `make codec-mutants` sets it.
var plantMutants = flag.Bool("mutants", false, "plant faults, and run the conformance suite until each is found")

// mutants are the faults of a new codec. When this codec was new, the suite found the first five of them.
var mutants = []struct{ name, file, old, new string }{
	{"a message that came twice is not acknowledged", "receive.go",
		"if err != nil && err != codec.ErrDuplicate {\n\t\treturn err\n\t}\n\tswitch {",
		"if err != nil {\n\t\treturn err\n\t}\n\tswitch {"},
	{"a payload is only lent", "inbox.go", "func (in *inbox) copyOf(payload []byte) []byte {",
		"func (in *inbox) copyOf(payload []byte) []byte {\n\tif len(payload) > 0 {\n\t\treturn payload\n\t}"},
	{"a fragment's number is off by one", "receive.go",
		"if cmd.seq != f.start+uint16(f.index) {", "if cmd.seq != f.start+uint16(f.index)+1 {"},
	{"Send works after Close", "conn.go", "case c.state >= flushing:\n\t\treturn codec.ErrClosed",
		"case c.state == closed:\n\t\treturn codec.ErrClosed"},
	{"no pings", "conn.go", "return c.answered.Add(pingInterval)", "return time.Time{}"},
	{"two commands have each other's number", "wire.go",
		"\tkindUnreliable\n\tkindFragment\n\tkindUnsequenced\n", "\tkindUnsequenced\n\tkindFragment\n\tkindUnreliable\n"},
	{"Close drops unacknowledged messages", "conn.go",
		"if c.state == flushing && c.out.reliable.len() == 0 && c.flight.messages == 0 && c.in.early == 0 {",
		"if c.state == flushing {"},
	{"held bytes have no bound", "inbox.go", "return in.held+more <= maxHeld && !in.full", "return !in.full"},
	{"any acknowledgement proves the address", "handshake.go",
		"at, ok := c.handshake.echoes(be.Uint16(cmd.body[2:]))\n\tif !ok {",
		"at, ok := c.handshake.attempts[0].at, true\n\tif !ok {"},
	{"the connect ID of VerifyConnect does not matter", "handshake.go",
		"if v.connectID != c.terms.connectID || v.throttle", "if v.throttle"},
	{"the number of unreliable messages wraps", "transmit.go", "if channel.Unreliable == 1<<16-1 {", "if false {"},
	{"messages use channels that the peer does not have", "transmit.go", "if int(n) >= c.channels {", "if false {"},
}

// TestMutants plants faults in this codec, one after the other. What any codec runs must find each: the conformance
// suite, or the replay of captures. Without -mutants it only looks for the places.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%s has the place %d times, want once", m.file, n)
			}
			if !*plantMutants {
				return
			}
			overlay := overlayOf(t, m.file, strings.Replace(string(source), m.old, m.new, 1))
			test := func(run string) ([]byte, error) {
				args := []string{"test", "-overlay", overlay, "-count", "1", "-failfast", "-run", run, "."}
				return exec.Command("go", args...).CombinedOutput()
			}
			if out, err := test("^$"); err != nil {
				t.Fatalf("the fault does not compile: %s", out)
			}
			for _, run := range []string{"^TestConformance$/^checksums$", "^TestConformance$", "^TestReplay$"} {
				if out, err := test(run); err != nil {
					t.Logf("found by %s", faultIn(string(out)))
					return
				}
			}
			t.Error("not found")
		})
	}
}

// overlayOf writes an overlay in which a file of this folder has another text.
func overlayOf(t *testing.T, file, text string) string {
	t.Helper()
	dir := t.TempDir()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	planted, list := filepath.Join(dir, file), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: planted}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{planted: []byte(text), list: overlay} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// faultIn returns the deepest failed test, and its first words.
func faultIn(out string) string {
	var test, says string
	for _, line := range strings.Split(out, "\n") {
		trimmed := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(trimmed, "--- FAIL: "); ok {
			test, says = name, ""
		} else if says == "" {
			says = trimmed
		}
	}
	return test + ": " + says
}
