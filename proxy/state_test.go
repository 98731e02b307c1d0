package proxy

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fatesOfServer says what becomes of each field of a Server in an upgrade: "carried" to the successor, made "anew", or
// "lost", with the reason.
const fatesOfServer = `
addrs       anew     of the same listeners
deserted    anew     a channel
handedOver  anew     the new process has handed nothing over
inherited   carried
keeper      anew     reads the kernel's state
loops       carried
mu          anew     a lock
onDrain     anew     set by the process
options     anew     from the command line
precopied   lost     the new process has copied nothing
reloading   anew     a lock
settings    anew     the configuration
shared      carried
`

// TestFatesOfServer fails when the fate of a field in an upgrade was not thought about.
func TestFatesOfServer(t *testing.T) {
	fates := make(map[string]bool)
	for line := range strings.Lines(strings.TrimSpace(fatesOfServer)) {
		words := strings.Fields(line)
		if len(words) < 2 || !slices.Contains([]string{"carried", "anew", "lost"}, words[1]) {
			t.Fatalf("line %q has no fate", line)
		}
		if words[1] != "carried" && len(words) == 2 {
			t.Errorf("line %q has no reason", line)
		}
		fates[words[0]] = true
	}
	server := reflect.TypeFor[Server]()
	for i := range server.NumField() {
		name := server.Field(i).Name
		if !fates[name] {
			t.Errorf("Server.%s has no fate in an upgrade: carry it, or say why not", name)
		}
		delete(fates, name)
	}
	for name := range fates {
		t.Errorf("Server has no field %s", name)
	}
}
