package cli

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/demo"
	"tidegate/internal/setup"
)

func TestDemoIsTheMainJob(t *testing.T) {
	code, stdout, stderr := tidegate(t, "demo", "--for", "1s", "--clients", "2")
	if code != 0 || !strings.Contains(stdout, "in front of a bedrock game server (go-raknet)") ||
		!strings.Contains(stdout, "\nok: ") {
		t.Errorf("code %d, says:\n%s%s", code, stdout, stderr)
	}
}

// TestDemoJSON prints one object, and nothing else.
func TestDemoJSON(t *testing.T) {
	code, stdout, stderr := tidegate(t, "demo", "--for", "1s", "--clients", "1", "--json")
	var out demo.Report
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	r := out.Reliable
	if code != 0 || !out.OK || r.Returned != r.Sent || r.Sent == 0 || out.RTT99 < out.RTT50 {
		t.Errorf("code %d, %+v", code, out)
	}
}

// TestDemoManyClients plays with more clients than one address may have otherwise. With -short, as under the race
// detector, it uses fewer.
func TestDemoManyClients(t *testing.T) {
	clients := "120"
	if testing.Short() {
		clients = "50"
	}
	code, stdout, stderr := tidegate(t, "demo", "--for", "1s", "--clients", clients)
	if code != 0 || !strings.Contains(stdout, "\nok: ") {
		t.Errorf("code %d, says:\n%s%s", code, stdout, stderr)
	}
}

// TestDemoOfEveryPair plays every pair with its own configuration, many at a time, since a demo mostly waits. It plays
// only some of them with -short. A receiver drops an unreliable message that a busy machine has delayed. So a pair
// without reliable messages may play once more, alone.
func TestDemoOfEveryPair(t *testing.T) {
	t.Parallel()
	play := func(p demo.Pair, mayLose bool) (again bool) {
		var out strings.Builder
		r, err := demo.Run(t.Context(), demo.Options{
			Pair: p, For: time.Second, Clients: 2, Settings: demoSettings(exampleConfig, p), Out: &out,
		})
		switch {
		case err == nil && r.OK():
		case err == nil && mayLose && (r.Reliable.Sent == 0 || p.Promise() != demo.ExactlyOnce): // RUDP sent one twice
			return true
		default:
			t.Errorf("%v: %v\n%s", p, err, out.String())
		}
		return false
	}
	places, again := make(chan struct{}, 12), make(chan demo.Pair, len(demoPairs()))
	const share = 6 // no divisor of the number of protocols, so that each protocol is tested on both sides
	var done sync.WaitGroup
	for i, p := range demoPairs() {
		if testing.Short() && i%share > 0 {
			continue
		}
		done.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if play(p, true) {
				again <- p
			}
		})
	}
	done.Wait()
	close(again)
	for p := range again {
		play(p, false)
	}
}

// TestDemoConfigurations checks the configurations of --show-config. They have warnings only between Riptide's
// dialects, whose values the demo does not use.
func TestDemoConfigurations(t *testing.T) {
	for _, p := range demoPairs() {
		text := starterFor(p).Needed(exampleListener, exampleServer)
		_, warnings, err := config.Parse("demo.toml", []byte(text), setup.Traits())
		from, to := strings.TrimSuffix(p.From(), "+tcp"), strings.TrimSuffix(p.To(), "+tcp")
		dialects := from != to && strings.HasPrefix(from, "riptide") && strings.HasPrefix(to, "riptide")
		if err != nil || len(warnings) > 0 != dialects {
			t.Errorf("%s: %v %v", p, err, warnings)
		}
	}
	code, stdout, _ := tidegate(t, "demo", "--show-config", "--from", "rudp", "--to", "raknet")
	want, err := os.ReadFile("internal/cli/testdata/demo-config.txt")
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || stdout != string(want) {
		t.Errorf("code %d, says:\n%s\nwant:\n%s", code, stdout, want)
	}
}

func TestDemoList(t *testing.T) {
	code, stdout, _ := tidegate(t, "demo", "--list")
	want, err := os.ReadFile("internal/cli/testdata/demo-list.txt")
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || stdout != string(want) {
		t.Errorf("code %d, says:\n%s\nwant:\n%s", code, stdout, want)
	}
	for line := range strings.Lines(stdout) {
		if len(line) > 60+len("\n") {
			t.Errorf("a line has more than 60 characters: %s", line)
		}
	}
}

// TestDemoKnowsEveryProtocol compares the demo's protocols with those of the configuration.
func TestDemoKnowsEveryProtocol(t *testing.T) {
	for name, traits := range setup.Traits() {
		if traits.Opaque || demo.Absent[name] != "" { // the demo could only relay the first
			continue
		}
		if _, err := demo.NewPair(name, name); err != nil {
			t.Error(err)
		}
	}
}

// TestDemoOverTCP checks the transport in the configuration, on each side.
func TestDemoOverTCP(t *testing.T) {
	code, stdout, _ := tidegate(t, "demo", "--show-config", "--from", "riptide-2.2+tcp")
	if code != 0 || strings.Count(stdout, `transport = "tcp"`) != 1 ||
		!strings.Contains(stdout, "protocols = [\"riptide-2.2\"]\ntransport") {
		t.Errorf("code %d, says:\n%s", code, stdout)
	}
}

// demoPairs returns all pairs that the demo can play, ordered by the clients' protocol, then by the server's.
func demoPairs() (all []demo.Pair) {
	for _, from := range demo.Protocols() {
		for _, to := range demo.Protocols() {
			if p, err := demo.NewPair(from, to); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}
