// Package dashboard tests Tidegate's dashboard by real clicks in a headless Chromium. It is a module of its own, so
// that Tidegate's module does not need the browser's protocol. Run it with "make interop", or here:
//
//	TIDEGATE=/path/to/tidegate go test .
//
// The folder $SHOTS keeps the screenshots; without it they go to a folder of the test.
package dashboard

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe is axe-core 4.10.3, which finds barriers for people with disabilities.
//
//go:embed testdata/axe.min.js
var axe string

// patience is long, since a busy machine draws slowly.
const patience = 90 * time.Second

// program starts tidegate and returns the first match of a pattern in its output.
func program(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	found, _ := start(t, pattern, args...)
	return found
}

// start is program, and also returns the ID of the process.
func start(t *testing.T, pattern string, args ...string) (found string, pid int) {
	t.Helper()
	path := os.Getenv("TIDEGATE")
	if path == "" {
		t.Skip("TIDEGATE does not name the program")
	}
	out, err := os.Create(filepath.Join(t.TempDir(), args[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	run := exec.CommandContext(t.Context(), path, args...)
	run.Stdout, run.Stderr = out, out
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = patience
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Wait() })
	want := regexp.MustCompile(pattern)
	until(t, args[0]+" says "+pattern, func() bool {
		text, _ := os.ReadFile(out.Name())
		found = want.FindString(string(text))
		return found != ""
	})
	return found, run.Process.Pid
}

// until waits for a condition, which it looks at again and again.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// tab is a browser's tab that shows the dashboard.
type tab struct {
	context.Context
	t      *testing.T
	errors *[]string
}

// open starts the demo, the command dashboard and a browser, and opens the link.
func open(t *testing.T) tab {
	t.Helper()
	program(t, `"message":"session established"`, "demo", "--serve", "--clients", "20", "--loss", "3%", "--delay", "25ms")
	t.Setenv("TIDEGATE_ADMIN", "127.0.0.1:9470")
	return browse(t, program(t, `http://127\S+`, "dashboard"))
}

// browse starts a browser and opens a link.
func browse(t *testing.T, link string) tab {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if _, err := exec.LookPath("google-chrome"); err != nil {
			t.Skip("no Chromium is installed: apt-get install chromium")
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 800))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := tab{ctx, t, new([]string)}
	if err := chromedp.Run(ctx); err != nil { // the first context that runs owns the browser
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, b.hear)
	b.do("open", chromedp.Navigate(link), chromedp.WaitVisible(".state.on"))
	return b
}

// hear notes what the browser complains about: scripts that fail, and what the security policy blocks.
func (b tab) hear(event any) {
	text, _ := json.Marshal(event)
	switch name := fmt.Sprintf("%T", event); name {
	case "*runtime.EventExceptionThrown", "*audits.EventIssueAdded":
		*b.errors = append(*b.errors, name+" "+string(text))
	case "*log.EventEntryAdded":
		if strings.Contains(string(text), `"level":"error"`) {
			*b.errors = append(*b.errors, string(text))
		}
	}
}

func (b tab) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var text string
		_ = chromedp.Run(b.Context, chromedp.Text("body", &text))
		b.t.Fatalf("%s: %v\nThe page shows: %s", what, err, text)
	}
}

// until waits until a JavaScript expression is true.
func (b tab) until(what, expression string) {
	b.t.Helper()
	b.do(what, chromedp.Poll(expression, nil, chromedp.WithPollingInterval(100*time.Millisecond)))
}

// text returns the value of a JavaScript expression as text.
func (b tab) text(expression string) (text string) {
	b.t.Helper()
	b.do(expression, chromedp.Evaluate("String("+expression+")", &text))
	return text
}

// click clicks the visible button, link or heading with a text.
func (b tab) click(text string) {
	b.t.Helper()
	path := fmt.Sprintf(`//*[self::button or self::a][normalize-space()=%q]`, text)
	b.do("click "+text, chromedp.Click(path, chromedp.BySearch, chromedp.NodeVisible))
}

// goTo opens a page by its link.
func (b tab) goTo(title string) {
	b.t.Helper()
	b.click(title)
	b.until("the page "+title, fmt.Sprintf(`document.title.startsWith(%q)`, title))
}

// shots keeps a screenshot of each size and theme.
func (b tab) shots(name string) {
	b.t.Helper()
	dir := os.Getenv("SHOTS")
	if dir == "" {
		dir = b.t.TempDir()
	}
	for _, theme := range []string{"light", "dark"} {
		for _, size := range [][2]int64{{360, 740}, {1280, 800}, {3840, 2160}} {
			b.do("resize", emulation.SetDeviceMetricsOverride(size[0], size[1], 1, size[0] < 500),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
			b.until("the theme", fmt.Sprintf(`document.documentElement.dataset.theme === %q`, theme))
			b.drawn()
			if wide := b.text(`document.documentElement.scrollWidth`); wide != fmt.Sprint(size[0]) {
				b.t.Errorf("%s at %d: the page is %s pixels wide", name, size[0], wide)
			}
			var picture []byte
			b.do("screenshot", chromedp.CaptureScreenshot(&picture))
			file := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, theme, size[0]))
			if err := os.WriteFile(file, picture, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}
		b.accessible(name + ", " + theme)
	}
	b.scrolls(name)
	b.do("resize", emulation.SetDeviceMetricsOverride(1280, 800, 1, false), chromedp.Evaluate(`scrollTo(0, 0)`, nil))
}

// scrolls moves each table that is wider than a phone sideways. When the page draws it again, it stays there.
func (b tab) scrolls(name string) {
	b.t.Helper()
	b.do("resize", emulation.SetDeviceMetricsOverride(360, 740, 1, true), chromedp.Evaluate(`
		for (const t of document.querySelectorAll('.scroll')) {
			t.scrollLeft = 20;
			t.dataset.moved = t.scrollLeft;
		}`, nil))
	if b.text(`document.querySelectorAll('.scroll[data-moved="20"]').length`) == "0" || !drawsAgain[name] {
		return
	}
	b.until("another table", `!document.querySelector('.scroll[data-moved="20"]')`)
	if at := b.text(`Math.max(...[...document.querySelectorAll('.scroll')].map((t) => t.scrollLeft))`); at != "20" {
		b.t.Errorf("%s: the tables are at %s after they were drawn again, want 20", name, at)
	}
}

// drawsAgain are the pages that draw all their tables again and again.
var drawsAgain = map[string]bool{"players": true, "servers": true, "admission": true}

// drawn waits until the page has drawn another event of the live stream, and the browser has painted it.
func (b tab) drawn() {
	b.t.Helper()
	events := b.text(`document.documentElement.dataset.events`)
	b.until("another event", fmt.Sprintf(`document.documentElement.dataset.events > %s`, events))
	b.do("paint", chromedp.Evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`, nil,
		awaited))
}

func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// accessible lets axe-core look for barriers, contrast included.
func (b tab) accessible(name string) {
	b.t.Helper()
	var found string
	b.do("axe", chromedp.Evaluate(axe, nil), chromedp.Evaluate(`
		axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations.map((v) => [
			v.id, v.help, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary),
		])))`, &found, awaited))
	if found != "[]" {
		b.t.Errorf("%s: axe-core found %s", name, found)
	}
}

// TestDashboard looks at each page of a proxy with players, and does what an operator does there.
func TestDashboard(t *testing.T) {
	b := open(t)
	if links := b.text(`document.querySelectorAll('nav a').length`); links != "5" {
		t.Errorf("%s pages without a fleet, want 5", links)
	}
	t.Run("now", func(t *testing.T) { testNow(b.with(t)) })
	t.Run("players", func(t *testing.T) { testPlayers(b.with(t)) })
	t.Run("player", func(t *testing.T) { testPlayer(b.with(t)) })
	t.Run("servers", func(t *testing.T) { testServers(b.with(t)) })
	t.Run("admission", func(t *testing.T) { testAdmission(b.with(t)) })
	t.Run("configuration", func(t *testing.T) { testConfiguration(b.with(t)) })
	t.Run("no fleet", func(t *testing.T) { testNoFleet(b.with(t)) })
	t.Run("theme", func(t *testing.T) { testTheme(b.with(t)) })
	for _, e := range *b.errors {
		t.Errorf("the browser complains: %s", e)
	}
}

// fleetNode starts a node of a fleet of two, which differ about the health of their server: one of them checks it, and
// it does not run. It returns the address of the admin server.
func fleetNode(t *testing.T, node int, health string) (admin string) {
	t.Helper()
	port := 9476 + 4*node
	admin = fmt.Sprintf("127.0.0.1:%d", port)
	many := `"192.0.2.1:1"`
	for i := range 60 {
		many += fmt.Sprintf(`, "192.0.2.1:%d"`, i+2)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "tidegate.toml")
	text := fmt.Sprintf(`
[admin]
listen = %q
[bans]
file = %q
[fleet]
name = "eu"
node = "ams%d"
follow = true
limits = true
listen = "127.0.0.1:%d"
peers = ["127.0.0.1:9477", "127.0.0.1:9481"]
secret = "0123456789abcdef"
store = %q
[[listener]]
name = "public"
address = "127.0.0.1:%d"
protocols = ["raknet"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:9479"]
health = %q
health_interval = "200ms"
[[listener]]
name = "many"
address = "127.0.0.1:0"
protocols = ["raknet"]
route = "many"
[[route]]
name = "many"
upstream = "many"
[[upstream]]
name = "many"
protocol = "raknet"
servers = [%s]
health = "off"
`, admin, filepath.Join(folder, "bans.json"), node+1, port+1, filepath.Join(folder, "store"), port+2, health, many)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, "admin server listening", "run", "-c", file)
	return admin
}

// TestFleet looks at the page of a node with a fleet. Others have no such page.
func TestFleet(t *testing.T) {
	admin := fleetNode(t, 0, "ping")
	fleetNode(t, 1, "off")
	t.Setenv("TIDEGATE_ADMIN", admin)
	b := browse(t, program(t, `http://127\S+`, "dashboard"))
	b.goTo("Fleet")
	b.until("the state", `document.querySelector('.badge')?.textContent === 'shared'`)
	program(t, "banned", "ban", "add", "198.51.100.0/24", "--reason", "cheats")
	b.until("a shared ban",
		`/Networks1Drained servers0Changes that wait0/.test(document.querySelector('main').textContent)`)
	const table = `document.querySelector('[aria-label=%q] tbody').textContent`
	for name, pattern := range map[string]string{
		"Nodes": `^ams1 \(this node\)shared.*raknet 0ams2reporting`, "Sessions by protocol": `raknet002`,
		"Bans": `198.51.100.0/24ams1forever\w*cheats`, "Servers": `^127.0.0.1:9479arena0down ams1up ams2–192`,
	} {
		b.until(name, fmt.Sprintf(`new RegExp(%q).test(`+table+`)`, pattern, name))
	}
	b.until("the difference", `/differ about the health of 1 of 62 /.test(document.querySelector('main').textContent)`)
	b.until("a bound", `/50 of 62 servers/.test(document.querySelector('main').textContent) &&
		document.querySelectorAll('[aria-label=Servers] tbody tr').length === 50`)
	program(t, ": drained", "upstreams", "drain", "arena", "127.0.0.1:9479")
	b.until("the drain", `/draining ams1, ams2at ams1/.test(`+fmt.Sprintf(table, "Servers")+`)`)
	b.do("only differing servers", chromedp.SetValue("select", "true"),
		chromedp.Evaluate(`document.querySelector('select').dispatchEvent(new Event('change'))`, nil))
	b.until("none", fmt.Sprintf(table, "Servers")+` === 'no server'`)
	b.do("all servers", chromedp.SetValue("select", "false"),
		chromedp.Evaluate(`document.querySelector('select').dispatchEvent(new Event('change'))`, nil))
	program(t, ": undrained", "upstreams", "undrain", "arena", "127.0.0.1:9479")
	b.do("search", chromedp.SendKeys("input[aria-label='Search bans']", "no such ban"))
	b.until("no ban", fmt.Sprintf(table, "Bans")+` === 'no ban'`)
	b.do("clear", chromedp.Evaluate(`document.querySelector("input[aria-label='Search bans']").select()`, nil),
		chromedp.KeyEvent("\b"))
	b.until("the ban again", `/cheats/.test(`+fmt.Sprintf(table, "Bans")+`)`)
	b.do("focus", chromedp.Evaluate(`document.querySelector('[aria-label=Nodes]').focus()`, nil))
	b.drawn()
	b.drawn()
	b.drawn()
	b.do("hide", chromedp.Evaluate(`Object.defineProperty(document, 'hidden', {value: true, configurable: true})`, nil))
	b.drawn()
	b.do("forget", chromedp.Evaluate(`performance.clearResourceTimings()`, nil))
	b.drawn()
	b.drawn()
	b.drawn()
	if asked := b.text(`performance.getEntriesByType('resource').length`); asked != "0" {
		t.Errorf("a hidden page has asked %s times", asked)
	}
	b.do("show", chromedp.Evaluate(`delete document.hidden`, nil))
	b.until("questions", `performance.getEntriesByType('resource').length > 3`)
	b.until("the focus stays", `document.activeElement.getAttribute('aria-label') === 'Nodes'`)
	b.shots("fleet")
	for _, e := range *b.errors {
		t.Errorf("the browser complains: %s", e)
	}
}

func (b tab) with(t *testing.T) tab { return tab{b.Context, t, b.errors} }

// testNow waits until figures move under load.
func testNow(b tab) {
	b.until("20 sessions", `document.querySelector('.tile dd').textContent === '20'`)
	b.until("messages", `/from players [1-9]/.test(document.querySelectorAll('.chart')[2].textContent)`)
	const legend = `document.querySelectorAll('.chart')[3].querySelector('.legend').textContent`
	b.until("figures that move", fmt.Sprintf(`%s !== %q`, legend, b.text(legend)))
	b.until("a text for the chart",
		`/now: established 20/.test(document.querySelector('.plot').getAttribute('aria-label'))`)
	paint, err := strconv.ParseFloat(b.text(`performance.getEntriesByName('first-contentful-paint')[0].startTime`), 64)
	heap := b.text(`Math.round(performance.memory.usedJSHeapSize / 1e5) / 10`)
	b.t.Logf("first content after %.0f ms, %s MB of JavaScript memory", paint, heap)
	if err != nil || paint > 1000 {
		b.t.Errorf("first content after %v ms, %v", paint, err)
	}
	if os.Getenv("SHOTS") != "" { // lines of some length
		b.until("lines", `document.documentElement.dataset.events > 20`)
	}
	b.shots("now")
}

// testPlayers sorts and searches.
func testPlayers(b tab) {
	b.goTo("Players")
	b.until("20 rows", `document.querySelectorAll('#players tbody tr').length === 20`)
	b.click("Player RTT")
	b.until("the order", `document.querySelector('[aria-sort=descending]').textContent === 'Player RTT'`)
	trips := `[...document.querySelectorAll('#players tbody tr')].map((r) => parseFloat(r.children[7].textContent))`
	b.until("the longest first", trips+`.every((v, i, all) => i === 0 || v <= all[i - 1])`)
	b.click("Player RTT")
	b.until("the shortest first", trips+`.every((v, i, all) => i === 0 || v >= all[i - 1])`)
	b.shots("players")
	address := b.text(`document.querySelector('#players tbody tr').children[1].textContent`)
	b.do("search", chromedp.SendKeys("input[type=search]", address))
	b.until("one row", `document.querySelectorAll('#players tbody tr').length === 1`)
	b.do("another search", chromedp.Evaluate(`document.querySelector('input[type=search]').select()`, nil),
		chromedp.SendKeys("input[type=search]", "no such player"))
	b.until("no row", `document.querySelector('#players tbody').textContent === 'no session'`)
	b.do("clear", chromedp.Evaluate(`document.querySelector('input[type=search]').select()`, nil), chromedp.KeyEvent("\b"))
	b.until("20 rows again", `document.querySelectorAll('#players tbody tr').length === 20`)
}

// testPlayer looks at one player, saves a capture and kicks.
func testPlayer(b tab) {
	id := b.text(`document.querySelector('#players tbody a').textContent`)
	b.click(id)
	b.until("both legs", `document.querySelectorAll('.pair .chart').length === 8`)
	b.until("the server's figures", `/server \d/.test(document.querySelectorAll('.pair .chart')[1].textContent)`)
	b.until("messages by kind", `/player/.test(document.querySelector('.grid .panel tbody').textContent)`)
	b.shots("player")
	folder := b.t.TempDir()
	b.do("downloads", browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(folder))
	b.click("Start capture")
	const stop = `[...document.querySelectorAll('button')].find((e) => /^Stop/.test(e.textContent))`
	b.until("datagrams", `/kB/.test(`+stop+`?.textContent)`)
	b.do("stop", chromedp.Evaluate(stop+`.click()`, nil))
	file := filepath.Join(folder, "tidegate-"+id+".pcapng")
	until(b.t, "a capture is saved", func() bool {
		text, _ := os.ReadFile(file)
		return len(text) > 1000 && text[0] == 0x0a
	})
	b.click("Kick")
	b.do("kick", chromedp.SendKeys("dialog input", "bye"), chromedp.Click("dialog button[type=submit]"))
	b.until("kicked", `/kicked|ended/.test(document.querySelector('main .banner').textContent)`)
	b.until("the session's end", `/ended/.test(document.querySelector('main .banner').textContent)`)
}

// testServers drains a server and moves its players.
func testServers(b tab) {
	b.goTo("Servers")
	b.until("two servers", `document.querySelectorAll('tbody tr').length === 2`)
	b.shots("servers")
	b.do("drain", chromedp.Click("tbody button"))
	b.until("drained", `document.querySelector('tbody .badge').textContent === 'draining'`)
	b.do("move", chromedp.Click("tbody button:nth-child(2)"), chromedp.Click("dialog button[type=submit]"))
	b.until("moved", `document.querySelector('tbody tr').children[2].textContent === '0'`)
	b.do("undrain", chromedp.Click("tbody button"))
	b.until("undrained", `document.querySelector('tbody .badge').textContent === 'up'`)
}

// testAdmission bans a network, asks why, and ends the ban.
func testAdmission(b tab) {
	b.goTo("Admission")
	b.click("Ban a network")
	b.do("ban", chromedp.SendKeys("dialog input[name=prefix]", "198.51.100.0/24"),
		chromedp.SendKeys("dialog input[name=reason]", "cheats"), chromedp.Click("dialog button[type=submit]"))
	b.until("the dialog closes", `!document.querySelector('dialog')`)
	b.until("the ban", `/198.51.100.0\/24/.test(document.querySelector('main').textContent)`)
	b.do("why", chromedp.SendKeys("input[name=address]", "198.51.100.7\r"))
	b.until("the answer", `/drop ban of 198.51.100.0\/24/.test(document.querySelector('main').textContent)`)
	b.shots("admission")
	b.click("End")
	b.click("End the ban")
	b.until("no ban", `/no ban$/.test(document.querySelectorAll('table')[1].textContent)`)
}

func testConfiguration(b tab) {
	b.goTo("Configuration")
	b.until("the configuration", `/\[\[listener\]\]/.test(document.querySelector('pre').textContent)`)
	b.click("Reload")
	b.do("reload", chromedp.Click("dialog button[type=submit]"))
	b.until("reloaded", `/1 good/.test(document.querySelector('main').textContent)`)
	b.shots("configuration")
}

// testNoFleet opens the page of the fleet, to which no link leads: the page says that there is none.
func testNoFleet(b tab) {
	b.do("open", chromedp.Evaluate(`location.hash = '#/fleet'`, nil))
	b.until("a clear word", `/^FleetThis proxy has no fleet/.test(document.querySelector('main').textContent)`)
	b.until("no panel", `![...document.querySelectorAll('.panel')].some((e) => e.checkVisibility())`)
	b.until("the title", `document.title === 'Fleet · Tidegate'`)
	b.accessible("no fleet")
}

// testTheme chooses the dark theme, which stays after a reload. The link cannot be used twice.
func testTheme(b tab) {
	b.do("system", emulation.SetEmulatedMedia())
	b.click("Theme: system")
	b.click("Theme: light")
	b.until("dark", `document.documentElement.dataset.theme === 'dark'`)
	b.do("reload", chromedp.Reload(), chromedp.WaitVisible(".state.on"))
	b.until("still dark", `document.documentElement.dataset.theme === 'dark'`)
	b.do("other tab", chromedp.Evaluate(`sessionStorage.clear()`, nil), chromedp.Reload(),
		chromedp.WaitVisible("input[type=password]"))
	*b.errors = nil // Chromium reports the answer 401
	n, err := strconv.Atoi(b.text(`document.querySelectorAll('.chart').length`))
	if err != nil || n != 0 {
		b.t.Errorf("%d charts without a token, %v", n, err)
	}
}
