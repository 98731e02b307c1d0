package relay

import "testing"

// TestLocals asserts that one Relay has one copy of a protocol, however often its settings contain it. Another Relay
// has another copy.
func TestLocals(t *testing.T) {
	shared, here, there := raknet6(), make(locals), make(locals)
	if here.of(shared) != here.of(shared) {
		t.Error("one Relay has a protocol twice")
	}
	if here.of(shared) == there.of(shared) || here.of(shared) == shared {
		t.Error("Relays share memory")
	}
	if here.of(Any) != Any {
		t.Error("a protocol without memory to share is another one")
	}
}
