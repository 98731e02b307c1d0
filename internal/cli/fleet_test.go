package cli

import (
	"strings"
	"testing"

	"tidegate/internal/config"
)

// TestCheckExplainsFleet says what a fleet shares and the effect of its faults, and nothing without one.
func TestCheckExplainsFleet(t *testing.T) {
	f := config.Default().Fleet
	if text := explainFleet(&f); text != "" {
		t.Errorf("without a fleet: %q", text)
	}
	f.Node, f.Servers = "ams1", []string{"tls://nats:4222"}
	for _, want := range []string{
		"node ams1, by tls://nats:4222, state in 3 copies", "shared are bans, drains of servers and counts",
		"after 250ms", "at each node alone", "ban file",
	} {
		if text := explainFleet(&f); !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	for on, want := range map[bool]string{
		false: "limits hold at each node alone", true: "limits per address and per network hold for all nodes together",
	} {
		if f.Limits = on; !strings.Contains(explainFleet(&f), "fleet: "+want) {
			t.Errorf("limits = %v: want %q in\n%s", on, want, explainFleet(&f))
		}
	}
	f.Servers, f.Peers = nil, []string{"a:1", "b:1", "c:1"}
	if text := explainFleet(&f); !strings.Contains(text, "fewer than 2 of the nodes run") {
		t.Errorf("embedded:\n%s", text)
	}
	f.Peers = []string{"a:1"}
	if text := explainFleet(&f); !strings.Contains(text, "the embedded server alone, state in one copy") {
		t.Errorf("alone:\n%s", text)
	}
}
