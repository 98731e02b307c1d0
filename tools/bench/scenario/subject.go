package scenario

import (
	"net/netip"
	"os"
	"os/exec"

	"tidegate/tools/bench/process"
)

// kind is a kind of subject.
type kind struct {
	name string
	// start runs it in front of a game server, with a folder for its files.
	start func(o *Options, echo netip.AddrPort, dir string) (*subject, error)
	// missing returns the name of a program that is not installed, or "".
	missing func() string
}

// subject is a running program, or direct or the kernel without a program.
type subject struct {
	*process.Process
	close func()         // may be nil
	forks bool           // its child processes do the work
	admin netip.AddrPort // of its profiles and metrics; zero: none
	dir   string         // of its files
	load  load
	idle  int64   // resident bytes before the first session
	full  int64   // resident bytes with all sessions
	heap  float64 // bytes in use before the first session; 0 without an admin address
}

func (s *subject) stop() {
	if s.load != nil {
		s.load.close()
	}
	s.Stop()
	if s.close != nil {
		s.close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// others are the kinds of subjects beside Tidegate.
var others = []kind{
	{"nginx", startNginx, program("nginx")},
	{"envoy", startEnvoy, program("envoy")},
	{"quilkin", startQuilkin, program("quilkin")},
	{"socat", startSocat, program("socat")},
	{"c", startC, program("cc")},
	{"traefik", startTraefik, program("go")},
	{"kernel-nat", startKernelNAT, program("nft")},
}

// Names returns the names that Options.Vs may have.
func Names() (names []string) {
	for _, k := range others {
		names = append(names, k.name)
	}
	return names
}

// Installed returns the names whose programs are installed.
func Installed() (names []string) {
	for _, k := range others {
		if k.missing() == "" {
			names = append(names, k.name)
		}
	}
	return names
}

func alwaysInstalled() string { return "" }

// program returns the function missing of a kind that needs a program.
func program(name string) func() string {
	return func() string {
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
		return ""
	}
}

// subjectOf returns the subject of a process that was started, or the error.
func subjectOf(p *process.Process, err error) (*subject, error) {
	if err != nil {
		return nil, err
	}
	return &subject{Process: p}, nil
}

// startDirect returns the game server itself, without a proxy. The costs of all other subjects are relative to it.
func startDirect(_ *Options, echo netip.AddrPort, _ string) (*subject, error) {
	return &subject{Process: &process.Process{Name: "direct", Addr: echo}}, nil
}
