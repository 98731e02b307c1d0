// Package process runs the programs that benchmarks measure. It pins them to cores and reads their processor time and
// memory.
package process

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// startTime is how long a program may take until it listens. startPoll is the time between two looks.
const (
	startTime = 10 * time.Second
	startPoll = 20 * time.Millisecond
)

// Process is a program that receives UDP datagrams at an address. The kernel can take its place: then it has no
// process.
type Process struct {
	Name string
	Addr netip.AddrPort // where clients send
	cmd  *exec.Cmd      // nil: no process
}

// Start starts a program that will listen at addr, and waits until it does. The name is for messages.
func Start(name string, addr netip.AddrPort, command ...string) (*Process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	log, err := os.CreateTemp("", "bench-"+name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	defer func() { _ = os.Remove(log.Name()) }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{Name: name, Addr: addr, cmd: cmd}
	if poll(func() bool { return listening(addr.Port()) }) {
		return p, nil
	}
	p.Stop()
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s does not listen on %v: %s", name, addr, text)
}

// AwaitTCP waits until the program accepts TCP connections at an address. It stops the program if that takes too long.
func (p *Process) AwaitTCP(addr netip.AddrPort) error {
	accepts := poll(func() bool {
		conn, err := net.Dial("tcp", addr.String())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if accepts {
		return nil
	}
	p.Stop()
	return fmt.Errorf("%s does not answer at %v", p.Name, addr)
}

// poll reports whether a condition holds within startTime.
func poll(done func() bool) bool {
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(startPoll) {
		if done() {
			return true
		}
	}
	return false
}

// PID returns the number of the process, or 0 without one.
func (p *Process) PID() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Stop kills the process.
func (p *Process) Stop() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // it was killed
	}
}

// Loopback is the address where the measured programs and servers listen.
var Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// WriteFile writes a file into a program's folder and returns its path.
func WriteFile(dir, name, text string) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Machine describes the machine for a result.
func Machine() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// StartNginx runs nginx's stream proxy with one worker and the given server blocks, which listen at addr.
func StartNginx(dir string, addr netip.AddrPort, servers string) (*Process, error) {
	module := "" // distributions build it as a separate file
	if found, _ := filepath.Glob("/usr/lib/nginx/modules/ngx_stream_module.so"); len(found) > 0 {
		module = "load_module " + found[0] + ";"
	}
	file, err := WriteFile(dir, "nginx.conf", fmt.Sprintf(`%s
daemon off; master_process off; error_log %s/error.log; pid %s/pid;
worker_rlimit_nofile 20000;
events { worker_connections 40000; multi_accept on; }
stream { %s }
`, module, dir, dir, servers))
	if err != nil {
		return nil, err
	}
	return Start("nginx", addr, "nginx", "-p", dir, "-c", file)
}
