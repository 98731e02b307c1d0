package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// placed is a configuration with a TCP listener and a listener of many ports.
const placed = `
[[listener]]
name = "stream"
address = "127.0.0.1:7701"
transport = "tcp"
protocols = ["riptide-2.2"]
route = "stream"
[[listener]]
name = "many"
address = "127.0.0.1:7000-7004"
protocols = ["any"]
route = "many"
[[route]]
name = "stream"
upstream = "stream"
[[route]]
name = "many"
upstream = "many"
mode = "relay"
[[upstream]]
name = "stream"
protocol = "riptide-2.2"
servers = ["127.0.0.1:7801"]
[[upstream]]
name = "many"
protocol = "any"
servers = ["127.0.0.2:8000-8004"]
`

// TestCheckNamesPlaces names each listener once, with its transport and all its ports.
func TestCheckNamesPlaces(t *testing.T) {
	code, stdout, stderr := tidegate(t, "check", "-c", write(t, placed))
	for _, want := range []string{
		"stream (tcp 127.0.0.1:7701) riptide-2.2 -> stream (riptide-2.2)\n", "many (127.0.0.1:7000-7004) any -> many (any)\n",
	} {
		if code != 0 || strings.Count(stdout, want) != 1 {
			t.Errorf("code %d, want %q once in\n%s%s", code, want, stdout, stderr)
		}
	}
}

// TestCheckShowsMaps prints a map as a table for each direction.
func TestCheckShowsMaps(t *testing.T) {
	config := strings.Replace(bridgeConfig("127.0.0.1:1"), "[[upstream]]", `undeclared = "drop"
[[route.map]]
client = "7"
server = "0x90"
mode = "reliable-ordered"
channel = 2
[[route.map]]
client = "100-199"
server = "0x91 0-99:u16be"
from = "client"
[[upstream]]`, 1)
	code, stdout, stderr := tidegate(t, "check", "-c", write(t, config))
	for _, want := range []string{`
    by the map:
      7                    as 0x90, reliable-ordered, channel 2
      100-199              as 0x91 0-99:u16be
      any other message    is dropped
  upstream to client:`, `
    by the map:
      0x90                 as 7
      any other message    is dropped
`} {
		if code != 0 || strings.Count(stdout, want) != 1 {
			t.Errorf("code %d, want once%s in\n%s%s", code, want, stdout, stderr)
		}
	}
}

// TestCheckReadsModules names the modules of a route, and reports one that would stop the proxy from starting.
func TestCheckReadsModules(t *testing.T) {
	path := write(t, strings.Replace(bridgeConfig("127.0.0.1:1"), "[[upstream]]",
		"[[route.module]]\nfile = \"chat.wasm\"\non_failure = \"drop\"\n[[upstream]]", 1))
	code, _, stderr := tidegate(t, "check", "-c", path)
	if code != 2 || !strings.Contains(stderr, `"chat.wasm": want a module`) {
		t.Errorf("without the file: code %d, says %q", code, stderr)
	}
	odd, err := os.ReadFile("internal/module/testdata/odd.wasm")
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(path), "chat.wasm"), odd, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := tidegate(t, "check", "-c", path)
	if code != 0 || !strings.Contains(stdout, "  module chat sees all messages; while it fails, they drop\n") {
		t.Errorf("code %d, says %s%s", code, stdout, stderr)
	}
}

// TestCheckReadsBans reports a ban file that would stop the proxy from starting.
func TestCheckReadsBans(t *testing.T) {
	path := write(t, bridgeConfig("127.0.0.1:1")+"[bans]\nfile = \"bans.jsonl\"\n")
	if code, _, stderr := tidegate(t, "check", "-c", path); code != 0 {
		t.Errorf("without the file: code %d, says %q", code, stderr)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "bans.jsonl"), []byte("who?\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := tidegate(t, "check", "-c", path); code != 2 || !strings.Contains(stderr, "bans.jsonl:1") {
		t.Errorf("a damaged file: code %d, says %q", code, stderr)
	}
}

// TestSourcesThatAreNotLocal passes the check on a machine that lacks the source addresses: Tidegate may run on
// another one.
func TestSourcesThatAreNotLocal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	text := strings.Replace(bridgeConfig("127.0.0.1:1"), "servers = [", "sources = [\"192.0.2.0/24\"]\nservers = [", 1)
	code, stdout, stderr := tidegate(t, "check", "-c", write(t, text))
	if code != 0 || !strings.Contains(stderr, "warning: upstream arena: sources: 192.0.2.0/24 is not local") {
		t.Errorf("check: code %d\n%s\n%s", code, stdout, stderr)
	}
	if code, _, stderr := tidegate(t, "run", "-c", write(t, text)); code != 1 ||
		!strings.Contains(stderr, "is not local") {
		t.Errorf("run: code %d\n%s", code, stderr)
	}
}

// TestCheckTakesPathsAndInput checks a file by its path, standard input, and both at once. JSON has warnings, and
// faults with their positions.
func TestCheckTakesPathsAndInput(t *testing.T) {
	good, bad := write(t, placed), write(t, "[[listener]]\n")
	if code, stdout, stderr := tidegate(t, "check", good, "--quiet"); code != 0 || stdout != "" {
		t.Errorf("quiet: code %d, says %q %q", code, stdout, stderr)
	}
	if code, stdout, stderr := tidegate(t, "check", "--json", good); code != 0 ||
		!strings.HasPrefix(stdout, `{"valid":true,"warnings":[],"machine":[`) {
		t.Errorf("json: code %d, says %q %q", code, stdout, stderr)
	}
	if code, stdout, stderr := tidegate(t, "check", "--json", bad); code != 2 || stdout != "" ||
		!strings.Contains(stderr, `"line":1,"column":3,"key":"listener[0].address","want":"ip:port`) {
		t.Errorf("faults as json: code %d, says %q %q", code, stdout, stderr)
	}
	if code, _, stderr := tidegate(t, "check", good, "-c", bad); code != 2 || !strings.Contains(stderr, "not both") {
		t.Errorf("two files: code %d, says %q", code, stderr)
	}
	app := App(exampleConfig)
	var out, errs strings.Builder
	app.Reader, app.Writer, app.ErrWriter = strings.NewReader(placed), &out, &errs
	if err := app.Run([]string{"tidegate", "check", "-"}); err != nil || !strings.Contains(out.String(), "is valid") {
		t.Errorf("standard input: %v, says %q %q", err, out.String(), errs.String())
	}
}

// TestCheckWarns warns of a hold that Minecraft cannot use.
func TestCheckWarns(t *testing.T) {
	path := write(t, bridgeConfig("127.0.0.1:1"))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	held := strings.Replace(string(text), `ordered = "fast"`, "ordered = \"fast\"\nfailover = \"hold\"", 1)
	if err := os.WriteFile(path, []byte(held), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := tidegate(t, "check", path)
	if want := `route[0].failover = "hold": want "disconnect" for Minecraft`; !strings.Contains(stderr, want) {
		t.Errorf("says %s, want %s", stderr, want)
	}
}
