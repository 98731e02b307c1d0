package bench

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// kind is something that can be measured.
type kind struct {
	name string
	// start runs it in front of an echo, with a folder for its files.
	start func(o *Options, echo netip.AddrPort, dir string) (*subject, error)
	// missing says what is not installed; empty if nothing is.
	missing func() string
}

// subject is one that runs.
type subject struct {
	name  string
	addr  netip.AddrPort // for clients
	cmd   *exec.Cmd      // nil: it has no process of its own
	close func()         // may be nil
	forks bool           // its work is done by processes that come and go
	admin netip.AddrPort // where it tells of its memory; zero: nowhere
	dir   string         // of its files
	load  load
	idle  int64   // resident bytes before its first session
	full  int64   // with all of them
	heap  float64 // bytes in use before, of a process that tells
}

// pid is that of its process, or 0.
func (s *subject) pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

func (s *subject) stop() {
	if s.load != nil {
		s.load.close()
	}
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
	}
	if s.close != nil {
		s.close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// others are what Tidegate is measured beside.
var others = []kind{
	{"nginx", startNginx, program("nginx")},
	{"socat", startSocat, program("socat")},
	{"c", startC, program("cc")},
	{"traefik", startTraefik, program("go")},
	{"kernel-nat", startKernelNAT, program("nft")},
}

// Names are the subjects that Options.Vs may have.
func Names() (names []string) {
	for _, k := range others {
		names = append(names, k.name)
	}
	return names
}

// Installed are the subjects that this machine has what they want for.
func Installed() (names []string) {
	for _, k := range others {
		if k.missing() == "" {
			names = append(names, k.name)
		}
	}
	return names
}

func nothing() string { return "" }

// program makes the missing of a kind that wants a program.
func program(name string) func() string {
	return func() string {
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
		return ""
	}
}

// startDirect is the echo itself: what all others add to.
func startDirect(_ *Options, echo netip.AddrPort, _ string) (*subject, error) {
	return &subject{name: "direct", addr: echo}, nil
}

// run starts a subject's program, which is to listen at an address, and waits until somebody does.
func run(name string, addr netip.AddrPort, command ...string) (*subject, error) {
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
	s := &subject{name: name, addr: addr, cmd: cmd}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if listening(addr.Port()) {
			return s, nil
		}
	}
	s.stop()
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s does not listen on %v: %s", name, addr, text)
}

// tells waits until a subject's process answers questions about its memory at an address.
func (s *subject) tells(admin netip.AddrPort) (*subject, error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", admin.String()); err == nil {
			_ = conn.Close()
			s.admin = admin
			return s, nil
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s does not answer at %v", s.name, admin)
}

// freeAddr is an address at home that nobody listens at.
func freeAddr() (netip.AddrPort, error) { return freeAddrAt(home) }

func freeAddrAt(at netip.Addr) (netip.AddrPort, error) {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer func() { _ = socket.Close() }()
	return socket.LocalAddr().(*net.UDPAddr).AddrPort(), nil
}

// write puts a text into a file of a subject's folder.
func write(dir, name, text string) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
