package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/testkit/await"
)

// Environment variables that let this test's program run a script before a step of an upgrade.
const (
	actsAt     = "TIDEGATE_TEST_ACTS_AT"
	actsScript = "TIDEGATE_TEST_ACTS"
)

func init() {
	if step := os.Getenv(actsAt); step != "" {
		atStep = func(at string) {
			if at != step {
				return
			}
			if out, err := exec.Command("sh", "-ec", os.Getenv(actsScript)).CombinedOutput(); err != nil {
				panic(string(out))
			}
		}
	}
}

// TestLateChanges lets an operator ban and drain while the process hands over. The successor follows, though the
// process had sent its bans and drains before.
func TestLateChanges(t *testing.T) {
	for _, step := range []string{"process copies the sessions", "process stands still", "successor runs"} {
		for name, bans := range map[string]string{"no ban file": "[bans]\nfile = \"\"\n", "a ban file": ""} {
			t.Run(step+", "+name, func(t *testing.T) {
				t.Parallel()
				changeLate(t, step, bans)
			})
		}
	}
}

func changeLate(t *testing.T, step, config string) {
	server, other := gameServer(t), gameServer(t)
	p := newProcess(t, os.Args[0], write(t, ""))
	p.rewrite(t, strings.Replace(bridgeConfig(server), `"]
[raknet]`, `", "`+other+`"]
[raknet]`, 1)+config)
	command := func(line string) string { return os.Args[0] + " " + line + " --admin unix:" + p.admin + "\n" }
	p.cmd.Env = append(p.cmd.Env, actsAt+"="+step, actsScript+"="+
		command("ban add 203.0.113.2")+command("ban del 203.0.113.1")+
		command("upstreams drain arena "+server)+command("upstreams undrain arena "+other))
	p.start(t)
	p.await(t, "tidegate is running")
	for _, line := range []string{"ban add 203.0.113.1", "upstreams drain arena " + other} {
		if out, err := exec.Command("sh", "-ec", command(line)).CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
	}
	must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	successor := int(p.await(t, "handed over; this process ends")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	must(t, p.cmd.Wait())
	var bans string
	await.Until(t, "answered by the successor", func() (answered bool) { // its admin server starts a moment later
		code, answer, _ := separately(t, "ban", "list", "--json", "--admin", "unix:"+p.admin)
		bans = answer
		return code == 0
	})
	if strings.Contains(bans, "203.0.113.1/32") || !strings.Contains(bans, "203.0.113.2/32") {
		t.Errorf("the successor's bans: %s", bans)
	}
	_, servers, _ := separately(t, "upstreams", "list", "--json", "--admin", "unix:"+p.admin)
	if states := statesOf(t, servers); states[server] != "draining" || states[other] == "draining" {
		t.Errorf("the successor's servers: %s", servers)
	}
}

// statesOf returns the states of the servers in the output of upstreams list.
func statesOf(t *testing.T, list string) map[string]string {
	t.Helper()
	states := make(map[string]string)
	for line := range strings.Lines(list) {
		var one struct {
			Servers []struct{ Address, State string }
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, s := range one.Servers {
			states[s.Address] = s.State
		}
	}
	return states
}
