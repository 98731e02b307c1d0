package flood

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"tidegate/tools/bench/process"
)

// subject is a program to flood.
type subject struct {
	name       string
	start      func(r *run) (*process.Process, error)
	isTidegate bool // and so has metrics
}

// subjects returns Tidegate with and without kernel filters, and the other programs of the options.
func subjects(o *Options, t *testbed) []subject {
	all := []subject{
		tidegate("tidegate, filter off", `filter = "off"`),
		tidegate("tidegate, no privilege", `filter = "auto"`,
			"setpriv", "--bounding-set", "-bpf,-perfmon,-net_admin,-sys_admin"),
		tidegate("tidegate, socket filter", `filter = "auto"`),
	}
	if t.device != "" {
		all = append(all, tidegate("tidegate, xdp", fmt.Sprintf("filter = \"auto\"\nxdp = [%q]", t.device)))
	}
	if slices.Contains(o.Vs, "nginx") {
		all = append(all, subject{name: "nginx", start: startNginx})
	}
	return slices.DeleteFunc(all, func(s subject) bool { return !strings.Contains(s.name, o.Subject) })
}

// tidegate is Tidegate with some lines of [kernel]. The command in by, if any, runs its arguments.
func tidegate(name, kernel string, by ...string) subject {
	return subject{name: name, isTidegate: true, start: func(r *run) (*process.Process, error) {
		file, err := process.WriteFile(r.dir, "flood.toml", configuration(r, kernel))
		if err != nil {
			return nil, err
		}
		ban := slices.Concat(r.o.Tidegate,
			[]string{"ban", "add", "-c", file, "--reason", "flood", r.testbed.banned().String()})
		if out, err := exec.Command(ban[0], ban[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ban: %w: %s", err, out)
		}
		return process.Start("tidegate", r.to[0], slices.Concat(by, r.o.Tidegate, []string{"run", "-c", file})...)
	}}
}

// adminSocket is the Unix socket of Tidegate's admin server.
func (r *run) adminSocket() string { return filepath.Join(r.dir, "admin") }

// configuration is the configuration of Tidegate. Keys that it lacks have their defaults.
func configuration(r *run, kernel string) string {
	text := fmt.Sprintf("[bans]\nfile = %q\n[admin]\nlisten = %q\n[loop]\ncount = 1\n[kernel]\n%s\n",
		filepath.Join(r.dir, "bans.jsonl"), "unix:"+r.adminSocket(), kernel)
	servers := r.clients.serverAddrs()
	for listener, addr := range r.to {
		mode := "terminate"
		if listener >= relayListener {
			mode = "relay"
		}
		text += fmt.Sprintf(`
[[listener]]
name = "flood%[1]d"
address = %[2]q
protocols = [%[3]q]
route = "flood%[1]d"
[[route]]
name = "flood%[1]d"
upstream = "flood%[1]d"
mode = %[4]q
[[upstream]]
name = "flood%[1]d"
protocol = %[3]q
servers = [%[5]q]
`, listener, addr, spoken[listener].Spec().Name, mode, servers[listener])
	}
	return text
}

// startNginx runs nginx's stream proxy with one worker, which refuses the banned network too.
func startNginx(r *run) (*process.Process, error) {
	servers := ""
	for listener, addr := range r.to {
		servers += fmt.Sprintf("server { listen %v udp rcvbuf=2m; deny %v; proxy_pass %v; proxy_timeout 10m; }\n",
			addr, r.testbed.banned(), r.clients.servers[listener].Addr())
	}
	return process.StartNginx(r.dir, r.to[0], servers)
}
