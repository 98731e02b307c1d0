package examples

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/codec/endpoint"
	"tidegate/internal/testkit/netlab"
)

// TestPages follows each tutorial and recipe from an empty folder: it saves the first configuration, makes the changes
// that the page shows, runs every command in order, and plays. Game servers are at the addresses that the page names,
// in a network of the test's own.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector does not see the processes")
	}
	for _, page := range pages(t) {
		t.Run(filepath.Base(page), func(t *testing.T) {
			r := newReader(t)
			for _, b := range blocks(t, page) {
				switch {
				case b.language == "toml" && r.stage == nil && strings.Contains(b.text, "[[listener]]"):
					r.save(t, b.text)
				case b.language == "toml" && r.stage != nil:
					r.change(t, b)
				case b.language == "sh":
					for line := range strings.Lines(b.text) {
						r.run(t, line)
					}
				}
			}
			if strings.Contains(page, "tutorials") && !r.plays {
				t.Error("the page does not start Tidegate")
			}
		})
	}
}

// reader is a user who follows a page.
type reader struct {
	*stage
	host  *netlab.Namespace // Tidegate's machine, where clients are too
	other *netlab.Namespace // the machine of the game servers, but for those on 127.0.0.1
	dir   string
	plays bool
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{host: netlab.New(t, "host"), other: netlab.New(t, "other"), dir: t.TempDir()}
	netlab.Cable(r.host, "eth0", r.other, "eth0")
	r.host.Address("eth0", "10.0.0.1/24")
	if err := os.Symlink(program, filepath.Join(r.dir, "tidegate")); err != nil {
		t.Fatal(err)
	}
	companions(t, r.dir)
	return r
}

// inside runs f on a machine, on another goroutine: a failure there ends the test here.
func inside(t *testing.T, at *netlab.Namespace, f func()) {
	t.Helper()
	at.Do(f)
	if t.Failed() {
		t.FailNow()
	}
}

// save saves the configuration, and starts the game servers that it names. The admin server has a socket of its own.
func (r *reader) save(t *testing.T, text string) {
	t.Helper()
	s := &stage{dir: r.dir, servers: make(map[string]*server), ports: make(map[string]netip.AddrPort)}
	r.stage = s
	text = secretFile.ReplaceAllString(text, "file:"+r.dir+"/")
	s.config, s.file = parse(t, "tidegate.toml", text), filepath.Join(r.dir, "tidegate.toml")
	s.rewrite(t, text+"\n[admin]\nlisten = \"unix:"+socket(t)+"\"\n")
	inside(t, r.host, func() {
		var err error
		if s.Endpoint, err = endpoint.New(endpoint.Options[client]{Event: heard}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { _ = s.Close() })
	for _, u := range s.config.Upstreams {
		for _, to := range u.Servers {
			at := r.host
			if !to.Address.Addr().IsLoopback() {
				at = r.other
				at.Address("eth0", to.Address.Addr().String()+"/24")
			}
			inside(t, at, func() { s.servers[to.Address.String()] = serve(t, u.Protocol, to.Address.AddrPort) })
		}
	}
}

var tableName = regexp.MustCompile("`(\\[+\\w+\\]+)`")

// change makes a change of the configuration: lines for the table that the text before the block names last, or whole
// tables.
func (r *reader) change(t *testing.T, b block) {
	t.Helper()
	text := read(t, r.file)
	if strings.HasPrefix(strings.TrimSpace(b.text), "[") {
		r.rewrite(t, text+"\n"+b.text)
		return
	}
	names := tableName.FindAllStringSubmatch(b.before, -1)
	if len(names) == 0 {
		t.Fatalf("the page does not name the table of\n%s", b.text)
	}
	table := names[len(names)-1][1] + "\n"
	if !strings.Contains(text, table) {
		text += table
	}
	for line := range strings.Lines(b.text) { // a key that the table has already is replaced
		if key, _, ok := strings.Cut(line, "="); ok {
			text = regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(strings.TrimSpace(key))+` *=.*\n`).ReplaceAllString(text, "")
		}
	}
	r.rewrite(t, strings.Replace(text, table, table+b.text, 1))
}

// run runs a command of a page. Tidegate itself stays in the background, and clients of each protocol join.
func (r *reader) run(t *testing.T, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, "  #")
	switch line = strings.TrimSpace(line); line {
	case "":
		return
	case "tidegate run":
		r.plays = true
		inside(t, r.host, func() { r.start(t) })
		r.play(t)
		return
	}
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "TIDEGATE_MAIN=1", "PATH="+r.dir+":"+os.Getenv("PATH"))
	var out []byte
	var err error
	run := func() { r.host.Do(func() { out, err = cmd.CombinedOutput() }) }
	if r.stage == nil {
		run()
	} else {
		r.meanwhile(t, line, run)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	if line == "tidegate reload" {
		r.play(t)
	}
}

// play joins clients of each protocol at each listener, and exchanges messages with the server.
func (r *reader) play(t *testing.T) {
	t.Helper()
	for _, l := range r.config.Listeners {
		to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), r.ports[l.Name].Port())
		if l.Address.Addr().Is6() {
			to = netip.AddrPortFrom(netip.IPv6Loopback(), to.Port())
		}
		r.ports[l.Name] = to
		for _, protocol := range l.Protocols {
			if protocol == "nethernet" { // make interop joins with real clients
				continue
			}
			if protocol == "any" {
				inside(t, r.host, func() { echo(t, to, "hello") })
				continue
			}
			var c *endpoint.Conn[client]
			inside(t, r.host, func() { c = r.dial(t, l.Name, protocol) })
			r.until(t, "connected to "+l.Name, func() bool { return c.Value.connected })
			r.talk(t, c, "hello")
		}
	}
}
