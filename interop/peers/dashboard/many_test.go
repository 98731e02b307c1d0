package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// manySessions is the number of sessions; watchTime is the time over which processor time is measured.
const (
	manySessions = 10_000
	datagrams    = 4_000 // a second, of all sessions together
	watchTime    = 10 * time.Second
)

const manyConfig = `
[[listener]]
name = "many"
address = %q
protocols = ["any"]
route = "many"
[[listener]]
name = "flooded"
address = %q
protocols = ["rudp"]
route = "flooded"
[[route]]
name = "many"
upstream = "many"
mode = "relay"
[[route]]
name = "flooded"
upstream = "flooded"
[[upstream]]
name = "many"
protocol = "any"
servers = [%[3]q]
[[upstream]]
name = "flooded"
protocol = "rudp"
servers = [%[3]q]
[limits]
sessions = 20000
half_open = 20000
idle_timeout = "10m"
[kernel]
filter = "off"
[admin]
listen = %[4]q
`

// many is a proxy with many sessions under traffic.
type many struct {
	admin   string // address
	flooded string // address of a listener that is flooded on demand
	pid     int
}

// freePort returns an address that is free for now.
func freePort(t *testing.T, network string) string {
	t.Helper()
	if network == "tcp" {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		return l.Addr().String()
	}
	l, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.LocalAddr().String()
}

// startMany starts a proxy, an echoing server and clients, each with an address of its own.
func startMany(t *testing.T) many {
	t.Helper()
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		b := make([]byte, 2000)
		for n, from, err := server.ReadFromUDPAddrPort(b); err == nil; n, from, err = server.ReadFromUDPAddrPort(b) {
			_, _ = server.WriteToUDPAddrPort(b[:n], from)
		}
	}()
	listener := freePort(t, "udp")
	m := many{admin: freePort(t, "tcp"), flooded: freePort(t, "udp")}
	file := filepath.Join(t.TempDir(), "many.toml")
	text := fmt.Sprintf(manyConfig, listener, m.flooded, server.LocalAddr(), m.admin)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, m.pid = start(t, "admin server listening", "run", "-c", file)
	to, err := net.ResolveUDPAddr("udp4", listener)
	if err != nil {
		t.Fatal(err)
	}
	var clients []*net.UDPConn
	t.Cleanup(func() {
		for _, c := range clients {
			_ = c.Close()
		}
	})
	for i := range manySessions {
		c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i))}, to)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	play(t, clients)
	until(t, "all sessions", func() bool { return m.sessions(t) == manySessions })
	return m
}

// play sends datagrams of all clients in turn until the test ends.
func play(t *testing.T, clients []*net.UDPConn) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		const burst = 20
		pace := time.NewTicker(time.Second * burst / datagrams)
		defer pace.Stop()
		body := make([]byte, 200)
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = clients[i%len(clients)].Write(body)
			if i%burst == 0 {
				<-pace.C
			}
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
}

// sessions returns the number of established sessions, from the metrics.
func (m many) sessions(t *testing.T) int {
	t.Helper()
	answer, err := http.Get("http://" + m.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	const name = `tidegate_sessions{listener="many",protocol="any",state="established"} `
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name); ok {
			n, _ := strconv.ParseFloat(text, 64)
			return int(n)
		}
	}
	return 0
}

// share returns the proxy's share of a core over watchTime, while watched runs.
func (m many) share(t *testing.T) float64 {
	t.Helper()
	used := func() float64 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
		if err != nil {
			t.Skip("no /proc")
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
		user, _ := strconv.Atoi(fields[12])
		system, _ := strconv.Atoi(fields[13])
		return float64(user+system) / 100
	}
	before, began := used(), time.Now()
	<-time.After(watchTime)
	return (used() - before) / time.Since(began).Seconds()
}

// TestManySessions opens the dashboard of a proxy with 10,000 sessions under traffic. It measures the first content,
// the page's memory, the size of events, and the processor time of the proxy without a page and with one. Then it turns
// pages, searches, and sees a flood.
func TestManySessions(t *testing.T) {
	m := startMany(t)
	without := m.share(t)
	b := browse(t, "http://"+m.admin+"/")
	b.until("all sessions", `document.querySelector('.tile dd').textContent === '10,000'`)
	var err error
	const painted = `performance.getEntriesByName('first-contentful-paint')`
	paint := 0.0
	for range 5 { // other programs may delay one
		b.until("the first content", painted+`.length > 0`)
		if paint, err = strconv.ParseFloat(b.text(painted+`[0].startTime`), 64); err != nil || paint <= 1000 {
			break
		}
		b.do("reload", chromedp.Reload(), chromedp.WaitVisible(".state.on"))
	}
	if err != nil || paint > 1000 {
		t.Errorf("first content after %v ms, %v", paint, err)
	}
	with := m.share(t)
	heap := b.text(`Math.round(performance.memory.usedJSHeapSize / 1e5) / 10`)
	t.Logf("first content after %.0f ms, %s MB of JavaScript memory, %d bytes an event", paint, heap, m.event(t))
	t.Logf("the proxy's share of a core: %.2f %% without a page, %.2f %% with one", 100*without, 100*with)
	if with-without > 0.02 {
		t.Errorf("watching costs %.2f %% of a core, want at most 2 %%", 100*(with-without))
	}
	t.Run("pages", func(t *testing.T) { testPages(b.with(t), m) })
	t.Run("flood", func(t *testing.T) { testFlood(b.with(t), m) })
	for _, e := range *b.errors {
		t.Errorf("the browser complains: %s", e)
	}
}

// event returns the size of an event of the live stream.
func (m many) event(t *testing.T) int {
	t.Helper()
	answer, err := http.Get("http://" + m.admin + "/api/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	size, ends := 0, 0
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		size += len(lines.Bytes()) + 1
		if lines.Text() == "" {
			if ends++; ends == 2 { // the first one has no rates
				return size
			}
			size = 0
		}
	}
	t.Fatal("the stream ends")
	return 0
}

// testPages turns the pages of players, up to the last one and back.
func testPages(b tab, m many) {
	b.goTo("Players")
	const found = `document.querySelector('[role=status].soft').textContent`
	b.until("the first page", found+` === '1–50 of 10,000'`)
	began := time.Now()
	b.click("Next")
	b.until("the second page", found+` === '51–100 of 10,000'`)
	b.t.Logf("a page of players after %v", time.Since(began).Round(time.Millisecond))
	b.until("50 rows", `document.querySelectorAll('#players tbody tr').length === 50`)
	first := b.text(`document.querySelector('#players tbody a').textContent`)
	b.click("Previous")
	b.until("the first page again", found+` === '1–50 of 10,000'`)
	if b.text(`document.querySelector('#players tbody a').textContent`) == first {
		b.t.Error("two pages begin with the same player")
	}
	if b.text(`[...document.querySelectorAll('button')].find((e) => e.textContent === 'Previous').disabled`) != "true" {
		b.t.Error("there is a page before the first one")
	}
	b.do("search", chromedp.SendKeys("input[type=search]", "127.1.39.15:"))
	b.until("one player", found+` === '1–1 of 1'`)
	if m.sessions(b.t) != manySessions {
		b.t.Error("sessions ended meanwhile")
	}
}

// testFlood sends malformed datagrams of strangers until the page shows a flood, and then waits for its end.
func testFlood(b tab, m many) {
	b.goTo("Now")
	conn, err := net.Dial("udp4", m.flooded)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for ctx.Err() == nil {
			<-pace.C
			_, _ = conn.Write([]byte("no packet of this protocol"))
		}
	})
	const banner = `document.querySelector('main .banner.bad').textContent`
	b.until("a flood", `/^Flood at flooded: [\d.,]+K?\/s dropped/.test(`+banner+`)`)
	b.shots("flood")
	stop()
	done.Wait()
	b.until("the flood's end", banner+` === ''`)
}
