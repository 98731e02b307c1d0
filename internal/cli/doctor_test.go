package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/doctor"
)

// TestDoctor plants faults around a real server: a taken port, a closed server and a name that does not exist.
func TestDoctor(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := silent.LocalAddr().String()
	_ = silent.Close()
	live := gameServer(t)
	file := filepath.Join(t.TempDir(), "tidegate.toml")
	configuration := "[admin]\nlisten = \"off\"\n[[listener]]\nname = \"public\"\naddress = \"" +
		taken.LocalAddr().String() + "\"\nprotocols = [\"raknet\"]\nroute = \"arena\"\n" +
		"[[route]]\nname = \"arena\"\nupstream = \"arena\"\n" +
		"[[upstream]]\nname = \"arena\"\nprotocol = \"raknet\"\nservers = [\"" + live + "\", \"" + closed + "\"]\n" +
		"resolver = \"" + closed + "\"\ndiscover = [\"no-such-name.invalid:19132\"]\n"
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := tidegate(t, "doctor", "--json", "-c", file)
	var report struct {
		Checks   []doctor.Result
		Problems int
	}
	err = json.Unmarshal([]byte(stdout), &report)
	if err != nil || code != 1 || len(report.Checks) != len(doctor.Checks) {
		t.Fatalf("code %d, %d checks, %v: %s", code, len(report.Checks), err, stderr)
	}
	want := map[string]string{"listeners": "address already in use", "servers": closed, "names": "no-such-name.invalid"}
	for _, r := range report.Checks {
		if text, planted := want[r.Check]; planted {
			if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Text, text) {
				t.Errorf("%s finds %+v, want only %s", r.Check, r.Findings, text)
			}
		}
	}
	if code, stdout, _ := tidegate(t, "doctor", "-c", file); code != 1 || !strings.Contains(stdout, "remedy: ") {
		t.Errorf("code %d, says %s", code, stdout)
	}
	if code, _, _ := tidegate(t, "doctor", "-c", file+".none"); code != 2 {
		t.Errorf("code %d for a configuration that is not there", code)
	}
}
