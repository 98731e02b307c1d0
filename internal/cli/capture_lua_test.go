package cli

import (
	"slices"
	"strings"
	"testing"

	"tidegate/internal/protocols"
	"tidegate/internal/setup"
	"tidegate/packaging/wireshark"
)

// TestDissectorsAreNamed asserts that each name is one of the dissectors, that R-Type alone has none (its version is
// not the protocol's), and that the printed flags name each port once.
func TestDissectorsAreNamed(t *testing.T) {
	_, lua, _ := tidegate(t, "capture", "--lua")
	if lua != wireshark.Dissector || !strings.Contains(lua, "Proto(") {
		t.Errorf("--lua writes %d bytes", len(lua))
	}
	for _, d := range protocols.All {
		if (wireshark.Names[d.Name] == "") != d.Default().Spec().Closed {
			t.Errorf("%s has the dissector %q", d.Name, wireshark.Names[d.Name])
		}
	}
	text := strings.Replace(bridgeConfig("127.0.0.2:19133-19134"), "127.0.0.1:0", "127.0.0.1:19132-19133", 1)
	c, _, err := setup.Parse("a", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-d", "udp.port==19132,raknet4", "-d", "udp.port==19133,raknet4", "-d", "udp.port==19134,raknet4"}
	if got := decodeAs(c); !slices.Equal(got, want) {
		t.Errorf("flags %q, want %q", got, want)
	}
}
