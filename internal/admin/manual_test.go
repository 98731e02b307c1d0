package admin

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// configuredServer is a server of the configuration.
const configuredServer = "10.0.0.5:19132"

// busyFigures are the figures of a proxy in which every counter has a value.
func busyFigures() relay.Figures {
	tally := &stats.Tally{Listener: "play", Protocol: "raknet", Opened: 3, Established: 2, Unestablished: 1}
	for mode := range tally.FromClients {
		tally.FromClients[mode] = stats.Traffic{Messages: 1, Bytes: 2}
		tally.FromUpstreams[mode] = stats.Traffic{Messages: 1, Bytes: 2}
	}
	tally.Ended[0][codec.Closed] = 1
	server := &stats.ServerTally{Upstream: "arena", Server: configuredServer, Joined: 2}
	server.Refused[codec.TimedOut] = 1
	server.Checked(true, time.Millisecond)
	var samples stats.Samples
	samples.Observe(new(stats.Sampled), codec.Stats{RTT: time.Millisecond, Queued: 5000}, &server.ToClients)
	samples.Observe(new(stats.Sampled), codec.Stats{RTT: time.Millisecond}, &server.ToServer)
	var counters stats.Counters
	counters.Limits[ratelimit.Handshakes][ratelimit.PerAddress] = stats.Breaches{Observed: 2, Enforced: 3}
	return relay.Figures{
		Counters: counters, ToClients: samples, Servers: []*stats.ServerTally{server},
		Sessions: []*stats.Tally{tally}, Drops: []*stats.DropTally{{Listener: "play"}}, Sockets: make([]netio.Stats, 1),
		Longest: []stats.LongTurn{{Took: time.Millisecond, Work: stats.WorkReload}},
		Rules:   []admission.RuleCount{{Kind: "source", Name: "friends", Matches: 4}},
		Kernel:  stats.KernelFigures{Filtered: []stats.Filtered{{Hook: "socket", Verdict: "passed", Datagrams: 1}}},
	}
}

// scraped returns the labels of each of our metrics in a scrape.
func scraped(t *testing.T) map[string][]string {
	t.Helper()
	f := newFake("")
	f.proxy.figures = busyFigures()
	f.state = Reloads{Last: time.Now()}
	found := make(map[string][]string)
	text := f.ask("GET", "/metrics", "").Body.String()
	histogram := regexp.MustCompile(`_(bucket|sum|count)$`)
	label := regexp.MustCompile(`(\w+)="`)
	for _, line := range regexp.MustCompile(`(?m)^(tidegate_\w+)(\{.*\})? `).FindAllStringSubmatch(text, -1) {
		name := histogram.ReplaceAllString(line[1], "")
		for _, match := range label.FindAllStringSubmatch(line[2], -1) {
			if match[1] != "le" && !slices.Contains(found[name], match[1]) {
				found[name] = append(found[name], match[1])
			}
		}
		slices.Sort(found[name])
		if found[name] == nil {
			found[name] = []string{}
		}
	}
	return found
}

// TestManualHasEveryMetric checks that the manual's table and a scrape have the same metrics and labels.
func TestManualHasEveryMetric(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := scraped(t)
	if len(found) < 25 {
		t.Fatalf("only %d metrics", len(found))
	}
	quoted := regexp.MustCompile("`(\\w+)`")
	row := regexp.MustCompile("(?m)^\\| `(tidegate_\\w+)` \\|([^|]*)\\|([^|]*)\\|")
	for _, row := range row.FindAllStringSubmatch(string(manual), -1) {
		var labels []string
		for _, match := range quoted.FindAllStringSubmatch(row[2], -1) {
			labels = append(labels, match[1])
		}
		slices.Sort(labels)
		if got, ok := found[row[1]]; !ok || !slices.Equal(got, labels) {
			t.Errorf("the manual has %s with labels %v; there are %v, of a metric that exists: %v", row[1], labels, got, ok)
		}
		if len(strings.TrimSpace(row[3])) < 10 {
			t.Errorf("the manual does not say what %s is", row[1])
		}
		delete(found, row[1])
	}
	for name, labels := range found {
		t.Errorf("the manual lacks %s, with labels %v", name, labels)
	}
}

// TestNoAddressInLabels checks that no label value can be chosen by others. Only configured servers are named.
func TestNoAddressInLabels(t *testing.T) {
	f := newFake("")
	f.proxy.figures = busyFigures()
	f.proxy.upstreams[0].Servers[0].Configured = true // the other one is discovered
	text := f.ask("GET", "/metrics", "").Body.String()
	if !strings.Contains(text, `tidegate_server_sessions{server="other",upstream="arena"} `) {
		t.Error("the discovered server is not counted")
	}
	text = strings.ReplaceAll(text, `server="`+configuredServer+`"`, "")
	address := regexp.MustCompile(`tidegate_.*\d+\.\d+\.\d+\.\d+.*`)
	if found := address.FindString(strings.ReplaceAll(text, "1.2.3", "")); found != "" {
		t.Errorf("scraped %s", found)
	}
}

// TestLimitsByVerdict counts breaches of a limit that only observes, too.
func TestLimitsByVerdict(t *testing.T) {
	f := newFake("")
	f.proxy.figures = busyFigures()
	text := f.ask("GET", "/metrics", "").Body.String()
	for _, want := range []string{
		`tidegate_limit_breaches_total{of="handshakes",per="address",verdict="observe"} 2`,
		`tidegate_limit_breaches_total{of="handshakes",per="address",verdict="enforce"} 3`,
		`tidegate_limit{key="sessions"} 10000`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the scrape lacks %s", want)
		}
	}
}
