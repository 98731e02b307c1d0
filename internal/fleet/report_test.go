package fleet

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// reportOf returns a report about the first servers of the tests.
func reportOf(instance string, number uint64, sessions ...int) *report {
	r := &report{Instance: instance, Number: number, Sent: now, Servers: []ServerCount{}, Protocols: []ProtocolCount{}}
	for i, n := range sessions {
		r.Servers = append(r.Servers, ServerCount{"arena", gameAt(i).addr, n, "up"})
	}
	return r
}

// TestReportsThereAndBack writes and reads reports, also the largest one.
func TestReportsThereAndBack(t *testing.T) {
	small := reportOf("a", 7, 1, 0, maxSessions)
	small.Protocols = []ProtocolCount{{"bedrock", 3, 1}, {"enet", 0, 0}}
	large := reportOf(strings.Repeat("i", maxWord), 1<<63)
	name := strings.Repeat(`"`, maxUpstream) // in JSON, each byte takes two
	for i := range maxServers {
		addr := netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666")
		large.Servers = append(large.Servers, ServerCount{name, netip.AddrPortFrom(addr, uint16(i+1)), maxSessions, "up"})
	}
	for i := range maxProtocols {
		p := fmt.Sprintf("%0*d", maxWord, i)
		large.Protocols = append(large.Protocols, ProtocolCount{p, maxSessions, maxSessions})
	}
	for _, want := range []*report{small, large, reportOf("b", 0)} {
		value, err := want.format()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseReport(value); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes, %v", len(value), err)
		}
	}
}

// TestHostileReports refuses reports that no node writes.
func TestHostileReports(t *testing.T) {
	const head = `{"instance":"i","number":1,"sent":"2026-11-23T12:00:00Z",`
	servers := func(text string) string { return head + `"servers":[` + text + `]}` }
	server := func(port int) string { return fmt.Sprintf(`{"u":"arena","s":"192.0.2.1:%d","n":1,"state":"up"}`, port) }
	protocols := func(text string) string { return head + `"protocols":[` + text + `]}` }
	many := make([]string, maxServers+1)
	for i := range many {
		many[i] = server(i + 1)
	}
	if _, err := parseReport([]byte(servers(strings.Join(many[1:], ",")))); err != nil {
		t.Errorf("as many servers as there is room for: %v", err)
	}
	for name, text := range map[string]string{
		"not JSON":              "{",
		"no instance":           `{"sent":"2026-11-23T12:00:00Z"}`,
		"a long instance":       `{"sent":"2026-11-23T12:00:00Z","instance":"` + strings.Repeat("i", maxWord+1) + `"}`,
		"no time":               `{"instance":"i"}`,
		"a negative number":     `{"instance":"i","number":-1,"sent":"2026-11-23T12:00:00Z"}`,
		"too long":              servers(server(1)) + strings.Repeat(" ", maxReport),
		"too many servers":      servers(strings.Join(many, ",")),
		"a server twice":        servers(server(1) + "," + server(1)),
		"a server without port": servers(`{"u":"arena","s":"192.0.2.1:0","n":1,"state":"up"}`),
		"a zone":                servers(`{"u":"arena","s":"[fe80::1%eth0]:1","n":1,"state":"up"}`),
		"a mapped address":      servers(`{"u":"arena","s":"[::ffff:192.0.2.1]:1","n":1,"state":"up"}`),
		"no upstream":           servers(`{"u":"","s":"192.0.2.1:1","n":1,"state":"up"}`),
		"an escape sequence":    servers(`{"u":"\u001b[2J","s":"192.0.2.1:1","n":1,"state":"up"}`),
		"a negative count":      servers(`{"u":"arena","s":"192.0.2.1:1","n":-1,"state":"up"}`),
		"a count beyond":        servers(fmt.Sprintf(`{"u":"arena","s":"192.0.2.1:1","n":%d,"state":"up"}`, maxSessions+1)),
		"a count of nonsense":   servers(`{"u":"arena","s":"192.0.2.1:1","n":1e99,"state":"up"}`),
		"a state in red":        servers(`{"u":"arena","s":"192.0.2.1:1","n":1,"state":"\u001b[31mup"}`),
		"no protocol":           protocols(`{"p":"","n":1,"half_open":0}`),
		"a protocol twice":      protocols(`{"p":"a"},{"p":"a"}`),
		"too many protocols":    protocols(strings.Repeat(`{"p":"a"},`, maxProtocols) + `{"p":"b"}`),
		"half-open below zero":  protocols(`{"p":"a","n":1,"half_open":-1}`),
	} {
		if r, err := parseReport([]byte(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, r)
		}
	}
}

// FuzzReport reads any report into an account. It stays bounded, and forgets everything in the end.
func FuzzReport(f *testing.F) {
	for _, r := range []*report{reportOf("a", 7, 1, 0, maxSessions), reportOf("b", 0)} {
		value, _ := r.format()
		f.Add("ams1", value)
	}
	f.Add("", []byte(`{"instance":"i","sent":"0001-01-02T00:00:00Z","servers":[{"u":"a","s":"[::1]:1","state":"x"}]}`))
	f.Fuzz(func(t *testing.T, node string, value []byte) {
		r, err := parseReport(value)
		if err != nil {
			return
		}
		a := newAccount()
		if _, err := a.take(now, "other", reportOf("a", 1, 5)); err != nil {
			t.Fatal(err)
		}
		_, _ = a.take(now, node, r)
		for s, n := range a.sum {
			if n <= 0 || n > 2*maxSessions || !s.valid() {
				t.Fatalf("%+v has %d sessions", s, n)
			}
		}
		if a.expire(now.Add(reportLife)); len(a.sum) != 0 || len(a.nodes) != 0 || a.cells != 0 {
			t.Fatalf("left are %+v", a)
		}
		again, err := r.format()
		if back, bad := parseReport(again); err != nil || bad != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%v, %v; %+v came back as %+v", err, bad, r, back)
		}
	})
}

// TestAccount adds up the reports of nodes, in any order of arrival, and forgets silent nodes.
func TestAccount(t *testing.T) {
	a := newAccount()
	take := func(at time.Duration, node string, r *report, changed bool, want error, sums ...int) {
		t.Helper()
		got, err := a.take(now.Add(at), node, r)
		if got != changed || err != want {
			t.Errorf("changed %v, %v; want %v, %v", got, err, changed, want)
		}
		for i, n := range sums {
			if a.sum[gameAt(i)] != n {
				t.Errorf("%v sessions at server %d, want %d", a.sum[gameAt(i)], i, n)
			}
		}
	}
	take(0, "a", reportOf("1", 5, 10, 20), true, nil, 10, 20)
	take(0, "b", reportOf("2", 1, 1, 0, 7), true, nil, 11, 20, 7)
	take(0, "a", reportOf("1", 4, 90), false, errOldNews, 11, 20, 7)
	take(time.Second, "a", reportOf("1", 6, 10, 20), false, nil, 11, 20, 7)
	take(9*time.Second, "a", reportOf("1", 7, 3), true, nil, 4, 0, 7)
	take(9*time.Second, "", reportOf("1", 8, 3), false, errNode, 4, 0, 7)
	if all := a.list(now.Add(9 * time.Second)); len(all) != 2 || all[0].Name != "a" || all[1].Age != 9*time.Second {
		t.Errorf("the nodes are %+v", all)
	}
	if !a.expire(now.Add(reportLife)) || a.sum[gameAt(0)] != 3 || len(a.sum) != 1 || a.expire(now.Add(reportLife)) {
		t.Errorf("left are %v", a.sum)
	}
	take(11*time.Second, "a", reportOf("3", 1), true, nil, 0) // another process
	if len(a.sum) != 0 || len(a.snapshot()) != 0 {
		t.Errorf("left are %v", a.sum)
	}
}

// TestAccountIsBounded refuses nodes and servers beyond the bounds. Silent nodes leave room.
func TestAccountIsBounded(t *testing.T) {
	defer func(n int) { maxCells = n }(maxCells)
	a := newAccount()
	for i := range maxNodes {
		if _, err := a.take(now, fmt.Sprint(i), reportOf("i", 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.take(now, "x", reportOf("i", 1)); err != errRoom {
		t.Errorf("one node more: %v", err)
	}
	maxCells = maxNodes + 1
	if _, err := a.take(now, "0", reportOf("i", 2, 1, 1)); err != nil || a.cells != maxCells {
		t.Errorf("the last cell: %v, %d cells", err, a.cells)
	}
	if _, err := a.take(now, "1", reportOf("i", 2, 1, 1)); err != errRoom || a.cells != maxCells {
		t.Errorf("one server more: %v, %d cells", err, a.cells)
	}
	a.expire(now.Add(reportLife))
	if _, err := a.take(now, "x", reportOf("i", 1, 1)); err != nil || a.cells != 1 {
		t.Errorf("after all have ended: %v, %d cells", err, a.cells)
	}
}

// TestShareable leaves out what a report has no room for: the servers with the fewest sessions.
func TestShareable(t *testing.T) {
	all := []ServerCount{{"a b", gameAt(0).addr, 99, "up"}}
	for i := range maxServers + 3 {
		all = append(all, ServerCount{"arena", gameAt(i).addr, i, "up"})
	}
	shared, beyond := shareable(all)
	if len(shared) != maxServers || beyond != 4 || shared[0].Sessions != maxServers+2 {
		t.Errorf("%d servers, %d beyond, the first is %+v", len(shared), beyond, shared[0])
	}
	if all[0].Sessions != 99 || all[1].Sessions != 0 {
		t.Error("the node's own list has changed")
	}
}
