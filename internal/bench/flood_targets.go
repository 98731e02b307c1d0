package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// target is a subject of floods.
type target struct {
	name  string
	start func(b *battle) (*subject, error)
	admin string // of Tidegate: name of the socket for questions
}

// targets are Tidegate without and with the kernel's filters, and whatever else is asked for.
func targets(o *FloodOptions, a *arena) []target {
	all := []target{
		tidegateTarget("tidegate, filter off", `filter = "off"`),
		tidegateTarget("tidegate, no privilege", `filter = "auto"`, "setpriv", "--bounding-set", "-bpf,-perfmon,-net_admin,-sys_admin"),
		tidegateTarget("tidegate, socket filter", `filter = "auto"`),
	}
	if a.device != "" {
		all = append(all, tidegateTarget("tidegate, xdp", fmt.Sprintf("filter = \"auto\"\nxdp = [%q]", a.device)))
	}
	if slices.Contains(o.Vs, "nginx") {
		all = append(all, target{name: "nginx", start: startFloodedNginx})
	}
	return slices.DeleteFunc(all, func(t target) bool { return !strings.Contains(t.name, o.Subject) })
}

// tidegateTarget runs Tidegate with some lines of [kernel], by a command that runs its arguments if there is one.
func tidegateTarget(name, kernel string, by ...string) target {
	return target{name: name, admin: "admin", start: func(b *battle) (*subject, error) {
		file, err := write(b.dir, "flood.toml", floodConfig(b, kernel))
		if err != nil {
			return nil, err
		}
		ban := append(slices.Clone(b.o.Tidegate), "ban", "add", "-c", file, "--reason", "flood", b.arena.banned().String())
		if out, err := exec.Command(ban[0], ban[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ban: %w: %s", err, out)
		}
		return run("tidegate", b.to[0], slices.Concat(by, b.o.Tidegate, []string{"run", "-c", file})...)
	}}
}

// socket is where a target that is Tidegate answers questions.
func (b *battle) socket() string { return filepath.Join(b.dir, b.target.admin) }

// floodConfig is the whole configuration: everything else is as shipped.
func floodConfig(b *battle, kernel string) string {
	text := fmt.Sprintf("[bans]\nfile = %q\n[admin]\nlisten = %q\n[loop]\ncount = 1\n[kernel]\n%s\n",
		filepath.Join(b.dir, "bans.jsonl"), "unix:"+b.socket(), kernel)
	for door, addr := range b.to {
		mode := "terminate"
		if door == doorRelay {
			mode = "relay"
		}
		text += fmt.Sprintf(`
[[listener]]
name = "door%[1]d"
address = %[2]q
protocols = [%[3]q]
route = "door%[1]d"
[[route]]
name = "door%[1]d"
upstream = "door%[1]d"
mode = %[4]q
[[upstream]]
name = "door%[1]d"
protocol = %[3]q
servers = [%[5]q]
`, door, addr, spoken[door].Spec().Name, mode, b.game.servers[door].socket.Addr())
	}
	return text
}

// startFloodedNginx runs nginx's stream proxy with one worker. It keeps the banned out too.
func startFloodedNginx(b *battle) (*subject, error) {
	servers := ""
	for door, addr := range b.to {
		servers += fmt.Sprintf("server { listen %v udp rcvbuf=2m; deny %v; proxy_pass %v; proxy_timeout 10m; }\n",
			addr, b.arena.banned(), b.game.servers[door].socket.Addr())
	}
	file, err := write(b.dir, "nginx.conf", nginxConfig(b.dir, servers))
	if err != nil {
		return nil, err
	}
	return run("nginx", b.to[0], "nginx", "-p", b.dir, "-c", file)
}

// hurryAll lets all threads of a process run before others.
func hurryAll(pid, nice int) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		var tid int
		if _, err := fmt.Sscan(filepath.Base(task), &tid); err == nil {
			_ = hurry(tid, nice) // it may have ended
		}
	}
	return err
}
