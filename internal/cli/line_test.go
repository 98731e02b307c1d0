package cli

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// TestFlagsAnywhere runs command lines with flags before, behind and between arguments.
func TestFlagsAnywhere(t *testing.T) {
	app := App(nil)
	for _, c := range []struct{ line, want string }{
		{"ban add 192.0.2.9 --for 1h", "ban add --for 1h 192.0.2.9"},
		{"--json sessions kick 4f", "sessions kick --json 4f"},
		{"-c tidegate.toml check", "check -c tidegate.toml"},
		{"sessions --listener public list", "sessions list --listener public"},
		{"ban add --for=1h 192.0.2.9 --reason x", "ban add --for=1h --reason x 192.0.2.9"},
		{"ban import - --for 1h", "ban import --for 1h -"},
		{"ban add -- -c", "ban add -- -c"},
		{"help sessions list", "help sessions list"},
		{"sessions list --count --json", "sessions list --count --json"},
		{"capture --count 5 -o -", "capture --count 5 -o -"},
	} {
		l, err := parseLine(app, strings.Fields(c.line))
		if got := strings.Join(l.words(), " "); err != nil || got != c.want {
			t.Errorf("%s: %q, error %v; want %q", c.line, got, err, c.want)
		}
	}
}

// eachCommand calls do for every visible command without subcommands.
func eachCommand(commands []*cli.Command, path string, do func(path string, c *cli.Command)) {
	for _, c := range commands {
		name := strings.TrimSpace(path + " " + c.Name)
		switch {
		case c.Hidden || c.SkipFlagParsing:
		case len(c.Subcommands) > 0:
			eachCommand(c.Subcommands, name, do)
		default:
			do(name, c)
		}
	}
}

// noJSON names the commands without --json, with the reason.
var noJSON = map[string]string{
	"run": "its log is JSON", "init": "prints TOML", "completion": "prints a script",
	"dashboard": "prints a link for a browser", "config schema": "prints JSON",
	"help": "explains commands", "metrics": "prints the format of Prometheus",
}

// TestEveryCommandHasJSON also holds the list of exceptions to the commands that exist.
func TestEveryCommandHasJSON(t *testing.T) {
	exceptions := 0
	eachCommand(App(nil).Commands, "", func(path string, c *cli.Command) {
		has := slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return f.Names()[0] == "json" })
		if noJSON[path] != "" {
			exceptions++
		}
		if has == (noJSON[path] != "") {
			t.Errorf("%s: --json %v, exception %q", path, has, noJSON[path])
		}
	})
	if exceptions != len(noJSON) {
		t.Errorf("%d of %d exceptions are commands", exceptions, len(noJSON))
	}
}

// TestErrorsAsJSON prints each kind of error as one JSON object.
func TestErrorsAsJSON(t *testing.T) {
	faulty := write(t, "[[listener]]\n")
	for _, c := range []struct {
		line, says string
		code       int
	}{
		{"ping --json", "ping: want one HOST:PORT", 2},
		{"version --json --fast", `unknown flag "--fast"`, 2},
		{"reload --json --admin 127.0.0.1:9", "No proxy listens there", 1},
		{"config print --json -c " + faulty, "listener[0].address", 2},
	} {
		code, stdout, stderr := tidegate(t, strings.Fields(c.line)...)
		var got struct {
			Error  string
			Code   int
			Faults []struct{ Line int }
		}
		err := json.Unmarshal([]byte(stderr), &got)
		if err != nil || code != c.code || got.Code != code || !strings.Contains(got.Error, c.says) || stdout != "" {
			t.Errorf("%s: code %d, says %q %q; want %q", c.line, code, stdout, stderr, c.says)
		}
		if strings.Contains(c.line, faulty) && len(got.Faults) < 2 {
			t.Errorf("%s: faults %v", c.line, got.Faults)
		}
	}
}

func TestConventions(t *testing.T) {
	for _, c := range []struct {
		line, says string
		code       int
	}{
		{"--version", "tidegate ", 0},
		{"-v", "tidegate ", 0},
		{"sessions --version", "tidegate ", 0},
		{"help", "COMMANDS:", 0},
		{"help ban add", "tidegate ban add", 0},
		{"ban add --help", "tidegate ban add", 0},
		{"ban add 192.0.2.9 --for 7d --help", "tidegate ban add - ", 0},
		{"sesions", `unknown command "sesions"; did you mean "sessions"?`, 2},
		{"session list", `unknown command "session"; did you mean "sessions"?`, 2},
		{"sessions ls", `unknown command "sessions ls"; did you mean "sessions list"?`, 2},
		{"validate", `did you mean "check"?`, 2},
		{"kick 4f", `unknown command "kick"; did you mean "sessions kick"?`, 2},
		{"disconnect 4f", `did you mean "sessions kick"?`, 2},
		{"unban 192.0.2.9", `did you mean "ban del" or "context del"?`, 2},
		{"list", `did you mean "ban list" or "sessions list" or "upstreams list" or "context list"?`, 2},
		{"upstreams kick 4f", `unknown command "upstreams kick"; did you mean "sessions kick"?`, 2},
		{"sessions run", `unknown command "sessions run"; did you mean "run"?`, 2},
		{"help kick", `did you mean "sessions kick"?`, 2},
		{"help baan", "did you mean \"ban\"?\nSee tidegate --help", 2},
		{"ban add --reson x", `unknown flag "--reson"; did you mean "--reason"?`, 2},
		{"ban add 192.0.2.9 --for 5", `--for "5": want a duration with its unit (ms, s, m, h or d), for example "90s"`, 2},
		{"ban add 192.0.2.9 --for", "--for: want a value\nSee tidegate ban add --help", 2},
		{"sessions list --limit many", `--limit "many": want a whole number`, 2},
		{"upstreams drain arena", "want UPSTREAM and SERVER\nSee tidegate upstreams drain --help", 2},
	} {
		code, stdout, stderr := tidegate(t, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: code %d, says %q %q; want %q", c.line, code, stdout, stderr, c.says)
		}
	}
}

// TestSuggestsEveryCommandOfAGroup: the name of a group's command, without its group, leads to the full name. A
// synonym of a command of the program itself, as status, leads to that one.
func TestSuggestsEveryCommandOfAGroup(t *testing.T) {
	top := App(nil).Commands
	for _, group := range top {
		for _, sub := range group.Subcommands {
			if sub.Hidden || named(top, sub.Name) != nil || named(top, meant[sub.Name]) != nil {
				continue
			}
			code, _, stderr := tidegate(t, sub.Name)
			if code != exitUsage || !strings.Contains(stderr, strconv.Quote(group.Name+" "+sub.Name)) {
				t.Errorf("%s: code %d, says %q", sub.Name, code, stderr)
			}
		}
	}
}

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "1d12h": 36 * time.Hour, "90s": 90 * time.Second, "0d": 0, "250ms": 250 * time.Millisecond,
	} {
		var got length
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s: %v, error %v; want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "1w", "7d5", "999999d", "-1s", "7d-1h", "5h1d"} {
		if err := new(length).Set(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
