package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gork "github.com/sandertv/go-raknet"
)

// TestOperatorCommands runs the commands for a running proxy with one client.
func TestOperatorCommands(t *testing.T) {
	server, second := gameServer(t), gameServer(t)
	p := startProcess(t, bridgeConfig(server+`", "`+second)+"[loop]\ncount = 1\n")
	player, err := gork.Dial(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = player.Close() }()
	p.await(t, "session established")
	client := regexp.QuoteMeta(player.LocalAddr().String())
	upstream := regexp.QuoteMeta(server)
	for _, c := range []struct {
		args string
		code int
		says string // regular expression
	}{
		{"sessions list", 0,
			`^ID  CLIENT +PROTOCOL +STATE .*\n1   ` + client + ` +bedrock +established +\d+s .* ` + upstream + ` .* public\n$`},
		{"sessions list --listener public --route arena --limit 5", 0, `\n1 `},
		{"sessions list --listener other", 1, `the proxy has no listener "other", but public`},
		{"sessions list --client 127.0.0.0/8 --server " + server + " --state established --sort rtt", 0, `\n1 `},
		{"sessions list --client 192.0.2.1 --protocol bedrock", 0, `^ID .*\n$`},
		{"sessions list --server " + second + " --count", 0, `^0\n$`},
		{"sessions list --count --json", 0, `^{"sessions":1}\n$`},
		{"sessions list --sort colour", 2, `--sort "colour": want one of age, `},
		{"sessions list --state here", 2, `--state "here": want one of half-open, `},
		{"sessions list --limit 0", 2, `--limit 0: want at least 1`},
		{"sessions list --json", 0, `^{"id":"1","state":"established",.*}\n$`},
		{"sessions show 1", 0,
			`^session 1: established for \d+s, by listener public and route arena \(terminate\)\n +CLIENT +SERVER\naddress +` +
				client + ` +` + upstream + "\n"},
		{"sessions show --json 1", 0, `^{"id":"1","state":"established",.*}\n$`},
		{"sessions show 2", 1, `^tidegate: session 2: no such session\n$`},
		{"sessions show ?", 2, `session "\?": want an ID`},
		{"sessions show", 2, `sessions show: want ID`},
		{"sessions show 1 --json", 0, `^{"id":"1",`},
		{"sessions transfer 1 " + server, 1, `session 1: session cannot be moved: it is at that server already`},
		{"sessions kick", 2, `want IDs, flags that choose sessions, or --all`},
		{"sessions kick 1 --all", 2, `want IDs or flags that choose sessions, not both`},
		{"sessions kick --client 192.0.2.1 --json", 0, `^{"kicked":0,"sessions":\[\]}\n$`},
		{"sessions kick 2 3", 1, `session 2: no such session\nsession 3: no such session`},
		{"sessions show 1 2", 2, `unexpected argument "2"`},
		{"sessions fly", 2, `unknown command "sessions fly"`},
		{"upstreams list", 0,
			`^UPSTREAM  SERVER .*\narena +` + upstream + ` +up +- +1 .*\narena +` + regexp.QuoteMeta(second) + ` +up +- +0 `},
		{"upstreams drain arena " + server, 0, `^server ` + upstream + ` of arena: drained\n$`},
		{"upstreams list --json", 0, `^{"name":"arena","servers":\[{"address":"` + upstream + `","state":"draining",`},
		{"upstreams undrain arena " + server, 0, `: undrained\n$`},
		{"upstreams drain arena 192.0.2.1:1", 1, `upstream arena, server 192.0.2.1:1: no such server in the upstream`},
		{"upstreams drain arena here", 2, `server "here": want ip:port`},
		{"sessions transfer 1 192.0.2.1:1", 1, `no such server in the upstream`},
		{"sessions transfer 1 " + second, 0, `^session 1 moves to ` + regexp.QuoteMeta(second) + `\n$`},
		{"upstreams drain --move arena 192.0.2.1:1", 1, `no such server in the upstream`},
		{"upstreams drain --move arena " + server, 0, `: drained; 0 of its sessions move to other servers\n$`},
		{"health", 0, `^ok      loops +\n$`},
		{"health --ready", 0, `(?m)^ok      upstreams `},
		{"health --ready --json", 0, `^{"ok":true,"checks":\[{"name":"loops","ok":true}`},
		{"reload", 0, `^configuration reloaded\n$`},
		{"reload --status", 0, `^1 succeeded, 0 failed\n$`},
		{"reload --status --json", 0, `^{"succeeded":1,"failed":0,"last":"2`},
		{"config print", 0, `(?s)idle_timeout = "30s".*\[\[listener\]\]\nname = "public"\n`},
		{"config print --running", 0, `(?s)idle_timeout = "30s".*\[\[listener\]\]\nname = "public"\n`},
		{"config print --json", 0, `"idle_timeout":"30s"`},
		{"sessions kick --client 127.0.0.1 --text bye", 0, `^kicked: session 1\n$`},
	} {
		words := strings.Fields(c.args)
		args := append([]string{words[0], "-c", p.file}, words[1:]...)
		if words[0] != "reload" && words[0] != "health" {
			args = append([]string{words[0], words[1], "-c", p.file}, words[2:]...)
		}
		code, stdout, stderr := tidegate(t, args...)
		if code != c.code || !regexp.MustCompile(c.says).MatchString(stdout+stderr) {
			t.Errorf("%s: code %d, says\n%s%s\nwant %d and %s", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
	if line := p.await(t, "session ended"); line["reason"] != "kicked" || line["by"] != "proxy" {
		t.Errorf("the session ended for %v by %v", line["reason"], line["by"])
	}
}

// TestReloadCommandTellsFaults reports a file's faults to the caller of reload, and later to reload --status.
func TestReloadCommandTellsFaults(t *testing.T) {
	good := bridgeConfig("127.0.0.1:1")
	p := startProcess(t, good)
	p.rewrite(t, strings.Replace(good, `"fast"`, `"soon"`, 1))
	const fault = `route[0].ordered = "soon": want "strict" or "fast"`
	if code, _, stderr := tidegate(t, "reload", "-c", p.file); code != 2 || !strings.Contains(stderr, fault) {
		t.Errorf("code %d, says %s", code, stderr)
	}
	if code, stdout, _ := tidegate(t, "reload", "--status", "-c", p.file); code != 0 ||
		!strings.Contains(stdout, "failed:\n") ||
		!strings.Contains(stdout, fault) {
		t.Errorf("code %d, says %s", code, stdout)
	}
	if code, stdout, _ := tidegate(t, "config", "print", "--running", "-c", p.file); code != 0 ||
		!strings.Contains(stdout, `"fast"`) {
		t.Errorf("code %d, in force is\n%s", code, stdout)
	}
}

func TestNoProxyToAsk(t *testing.T) {
	for _, c := range []struct {
		configuration string
		code          int
		says          string
	}{
		{"[admin]\nlisten = \"unix:/nonexistent/admin.sock\"\n", 1,
			"tidegate: ask the proxy at unix:/nonexistent/admin.sock: dial unix /nonexistent/admin.sock: connect: no such " +
				"file or directory"},
		{"[admin]\nlisten = \"off\"\n", 1, `has admin.listen = "off": a running proxy cannot be reached`},
		{"[admin]\nlisten = \"on\"\n", 2, `admin.listen = "on": want "auto", ip:port`},
		{"[admin", 2, `want valid TOML`},
	} {
		code, _, stderr := tidegate(t, "sessions", "list", "-c", write(t, c.configuration))
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: code %d, says %s", c.configuration, code, stderr)
		}
	}
}

// TestAdminAddressIsTaken does not start a second proxy at the same admin address.
func TestAdminAddressIsTaken(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	code, _, stderr := tidegate(t, "run", "-c", p.file)
	const reason = `another process listens there; use another address, or \"off\"","time":`
	if code != 1 || strings.Count(stderr, reason) != 1 || !strings.HasSuffix(stderr, `"message":"tidegate failed"}`+"\n") {
		t.Errorf("code %d, says %s", code, stderr)
	}
}

// TestUnhealthy reports a proxy without a server for clients, also by the exit code.
func TestUnhealthy(t *testing.T) {
	server := gameServer(t)
	p := startProcess(t, bridgeConfig(server))
	if code, _, stderr := tidegate(t, "upstreams", "drain", "-c", p.file, "arena", server); code != 0 {
		t.Fatal(stderr)
	}
	code, stdout, _ := tidegate(t, "health", "--ready", "-c", p.file)
	if want := "not ok  upstreams      no server is up: arena\n"; code != 1 || !strings.Contains(stdout, want) {
		t.Errorf("code %d, says\n%s\nwant 1 and %s", code, stdout, want)
	}
}

// TestNoProxy checks the advice of a command that finds no running proxy.
func TestNoProxy(t *testing.T) {
	path := write(t,
		bridgeConfig("127.0.0.1:1")+"[admin]\nlisten = \"unix:"+filepath.ToSlash(t.TempDir())+"/absent.sock\"\n")
	code, _, says := tidegate(t, "sessions", "list", "-c", path)
	want := "No proxy listens there: start one, or name it with --admin, --context or -c"
	if code != 1 || !strings.Contains(says, want) {
		t.Errorf("code %d, says %q; want 1 and %q", code, says, want)
	}
}
