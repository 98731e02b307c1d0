package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	gork "github.com/sandertv/go-raknet"
	"github.com/urfave/cli/v2"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
)

// example is a command line in a command's help.
type example struct {
	command string
	args    []string
}

var exampleLine = regexp.MustCompile(`(?m)^   tidegate (.*)$`)

// allExamples returns the examples of all visible commands without subcommands, in the order of the help.
func allExamples(t *testing.T, path string, commands []*cli.Command) (all []example) {
	for _, c := range commands {
		name := strings.TrimSpace(path + " " + c.Name)
		if len(c.Subcommands) > 0 {
			all = append(all, allExamples(t, name, c.Subcommands)...)
			continue
		}
		if c.Hidden || c.SkipFlagParsing { // a command that is not in this build parses no flags
			continue
		}
		lines := exampleLine.FindAllStringSubmatch(c.Description, -1)
		if len(lines) == 0 {
			t.Errorf("the help of %s has no example", name)
		}
		for _, line := range lines {
			if !strings.HasPrefix(line[1], name) {
				t.Errorf("the help of %s has the example %s", name, line[1])
			}
			all = append(all, example{name, split(line[1])})
		}
	}
	return all
}

// split splits a line as a shell with double quotes does.
func split(line string) (all []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// TestExamples runs the examples of every command's help, in a directory with tidegate.toml, game.pcap and
// blocklist.txt. The proxy from the example of run is running and records, with one client. The test replaces the
// addresses in the examples. Examples that need no running proxy and mostly wait run beside the others.
func TestExamples(t *testing.T) {
	first, second := gameServer(t), gameServer(t)
	capture, err := os.ReadFile(handshake)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ownContexts(t)
	at := socketPath(t)
	configuration := (&process{admin: at}).reachable(bridgeConfig(first+`", "`+second) +
		"[loop]\ncount = 1\n[record]\nlast = \"1m\"\n")
	for name, text := range map[string]string{"tidegate.toml": configuration, "game.pcap": string(capture),
		"token.txt": "0123456789abcdef", "blocklist.txt": "203.0.113.0/24\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran := &background{servers: strings.NewReplacer("10.0.0.5:19132", first, "10.0.0.6:19132", second,
		"https://eu1.example.com", "unix:"+at, "http://10.0.0.2:9470", "unix:"+at)}
	var last []example // examples that end the proxy
	var apart sync.WaitGroup
	defer apart.Wait()
	places := make(chan struct{}, 4)
	for _, e := range allExamples(t, "", App(exampleConfig).Commands) {
		switch e.command {
		case "run":
			ran.start(t, e.args)
			client, err := gork.Dial(ran.address(t))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
		case "upgrade": // starts the program itself: TestUpgradeCommand
		case "drain":
			if !slices.Contains(e.args, "--to-fleet") { // it needs other nodes: TestDrainToFleet
				last = append(last, e)
			}
		case "dashboard":
			tryUntilPrompt(t, e)
		default:
			switch {
			case slices.Contains(e.args, "--serve"): // does not end: TestDemoServe
			case e.command == "demo":
				apart.Go(func() {
					places <- struct{}{}
					defer func() { <-places }()
					code, stdout, stderr := separately(t, e.args...)
					e.passed(t, code, stdout, stderr)
				})
			default:
				ran.try(t, e)
			}
		}
	}
	for _, e := range last {
		ran.try(t, e)
	}
	if code := <-ran.ended; code != 0 {
		t.Errorf("run ended with code %d", code)
	}
}

// tryUntilPrompt runs an example that serves until Ctrl+C, and ends it once it serves.
func tryUntilPrompt(t *testing.T, e example) {
	t.Helper()
	for i, arg := range e.args {
		if arg == examplePort { // another program of this machine may have it
			e.args[i] = strconv.Itoa(int(freeport.Loopback(t).Port()))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	out, errs := &untilPrompt{end: cancel}, new(bytes.Buffer)
	code := run(ctx, exampleConfig, append([]string{"tidegate"}, e.args...), out, errs)
	e.passed(t, code, out.String(), errs.String())
	if !out.prompted() {
		t.Errorf("tidegate %s: has no prompt, says\n%s", strings.Join(e.args, " "), out)
	}
}

// untilPrompt is the output of a command. It ends the command once that has asked for Ctrl+C.
type untilPrompt struct {
	bytes.Buffer
	end func()
}

func (u *untilPrompt) Write(b []byte) (int, error) {
	n, err := u.Buffer.Write(b)
	if u.prompted() {
		u.end()
	}
	return n, err
}

func (u *untilPrompt) prompted() bool { return strings.Contains(u.String(), "Press Ctrl+C to end.") }

// try runs an example that ends by itself.
func (b *background) try(t *testing.T, e example) {
	t.Helper()
	for i, arg := range e.args {
		if e.args[i] = b.servers.Replace(arg); strings.Contains(arg, exampleAddress) {
			e.args[i] = strings.ReplaceAll(e.args[i], exampleAddress, b.address(t))
		}
	}
	code, stdout, stderr := tidegate(t, e.args...)
	if e.command == "doctor" && code == 1 { // the test's machine may be small
		code = 0
	}
	e.passed(t, code, stdout, stderr)
}

// passed checks the exit code of an example.
func (e *example) passed(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if code != 0 {
		t.Errorf("tidegate %s: code %d, says\n%s%s", strings.Join(e.args, " "), code, stdout, stderr)
	}
}

// exampleAddress stands for the listener in examples.
const exampleAddress = "127.0.0.1:7777"

// examplePort is the port of the dashboard in examples.
const examplePort = "9480"

// background is a command that runs beside the test in this process.
type background struct {
	ended chan int
	log   *io.PipeReader
	addr  string
	// servers replaces an example's addresses by those of the test's servers.
	servers *strings.Replacer
}

func (b *background) start(t *testing.T, args []string) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	reader, writer := io.Pipe()
	b.log, b.ended = reader, make(chan int, 1)
	go func() {
		b.ended <- run(ctx, exampleConfig, append([]string{"tidegate"}, args...), io.Discard, writer)
		_ = writer.Close()
	}()
}

// address returns the listener's address, once the proxy runs.
func (b *background) address(t *testing.T) string {
	t.Helper()
	if b.addr != "" {
		return b.addr
	}
	lines := json.NewDecoder(b.log)
	for {
		var line struct{ Message, Address string }
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		switch line.Message {
		case "listening":
			b.addr = line.Address
		case "tidegate is running":
			go func() { _, _ = io.Copy(io.Discard, b.log) }()
			return b.addr
		}
	}
}

// TestCommandsAreListed holds the table of docs/reference/commands.md to the program's commands, in the same order.
func TestCommandsAreListed(t *testing.T) {
	page, err := os.ReadFile("docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, c := range App(nil).Commands {
		if !c.Hidden {
			want = append(want, fmt.Sprintf("| `%s` | %s |", c.Name, c.Usage))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/reference/commands.md has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
