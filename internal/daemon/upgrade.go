package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/rs/zerolog"
	"tidegate/internal/admin"
	"tidegate/internal/banfile"
	"tidegate/internal/fleet"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
	"tidegate/proxy"
)

// upgrader replaces the process by one of the program file's current release.
type upgrader struct {
	server  *proxy.Server
	reloads *reloader
	bans    *banSync
	joins   *joinServers
	loops   int
	secrets setup.Secrets
	log     zerolog.Logger
	trace   trace
	from    inheritance // of this process
	program string      // path of the program file; empty: none
	pending func() fleet.Pending
	leave   func() // the fleet
	left    bool   // the fleet, and the successor has joined it
	// leaving has what the successor has to know of the fleet, once this process has begun to leave it; else nil.
	leaving *fleet.Pending

	state   atomic.Pointer[admin.Upgrade] // nil: no upgrade was tried
	running sync.Mutex                    // held during an upgrade
}

// programPath returns the path of the program at the start of the process. The next release will have that path, while
// the running file may be moved, or the path may be a link. The argument name is the process's first argument.
func programPath(name string) (string, error) {
	running, err := os.Executable()
	found, lookErr := exec.LookPath(name)
	if lookErr == nil {
		found, lookErr = filepath.Abs(found)
	}
	switch {
	case lookErr == nil && (err != nil || isSameFile(found, running)):
		return found, nil
	case err != nil:
		return "", err
	}
	return running, nil // the process was started under another name
}

func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// tried returns the state of upgrades.
func (u *upgrader) tried() admin.Upgrade {
	return *cmp.Or(u.state.Load(), new(admin.Upgrade))
}

// wait returns when no upgrade is running: the process must not end during one.
func (u *upgrader) wait() {
	u.running.Lock()
	defer u.running.Unlock()
}

// A new release replaces a running one, and takes over all of its sessions. The process starts its successor with one
// end of a socket pair. On this pair they exchange messages in turn:
//
//	process:   "hello" with a handover, and copies of the listening sockets
//	successor: "ready" with its version, once it has its configuration and the listeners; or "refused" with the reason
//	process:   "given" sockets and "copies" of sessions, while it goes on; any number of times, if the successor takes
//	           them
//	successor: "copied" after each
//	process:   stands still, and sends "sockets", "shared" and "sessions" of each loop, and "all"
//	successor: "have", once it could go on
//	process:   "go"
//	successor: "running", and reads the sockets
//	process:   from here on "join" for each NetherNet client that it answers
//	process:   leaves its fleet, and sends "fleet" with its belongings so far: the successor joins
//	process:   "late" with its last belongings, and ends
//
// Until "running" the process can go on with everything. It then kills the successor first. Afterwards it ends, and
// the end of the pair tells the successor that this has happened. If the process dies before "go", a successor that has
// "all" goes on with the sessions, and another one starts without them.

// HandoverFormat is the format of the messages. A release with another format refuses them. Only tests change it.
var HandoverFormat = 1

// Words of the conversation.
const (
	wordHello    = "hello"
	wordReady    = "ready"
	wordGiven    = "given"
	wordCopies   = "copies"
	wordCopied   = "copied"
	wordRefused  = "refused"
	wordSockets  = "sockets"
	wordShared   = "shared"
	wordSessions = "sessions"
	wordAll      = "all"
	wordHave     = "have"
	wordGo       = "go"
	wordRunning  = "running"
	wordFleet    = "fleet"
	wordLate     = "late"
	wordJoin     = "join"
)

// handover is the body of the first message. Its JSON names are fixed: releases of different versions exchange it.
type handover struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // the predecessor's
	Loops   int    `json:"loops"`
	// Records are the versions of the records that the predecessor writes, by their kinds.
	Records map[string]int `json:"records,omitempty"`
	setup.Secrets
	// Config is the configuration in force, as the text of its file. The sessions are those of this configuration.
	Config string `json:"config"`
	// Earlier are configurations before, and Retired the addresses of their removed listeners with sessions.
	Earlier []string         `json:"earlier,omitempty"`
	Retired []netip.AddrPort `json:"retired,omitempty"`
	belongings
	// Activated means that the service manager has the listening sockets too.
	Activated bool `json:"activated,omitempty"`

	late *belongings // at the end of the predecessor; nil: not received
}

// belongings are the state beside the loops that changes while a process runs: an operator may change it until the
// process ends.
type belongings struct {
	// Drained are the servers that operators have drained, by upstream. Without it operators would have to drain them
	// again.
	Drained map[string][]netip.AddrPort `json:"drained,omitempty"`
	// Bans are those in force without a ban file. Without it a banned client would get in again.
	Bans []banfile.Record `json:"bans,omitempty"`
	// Fleet has the changes that the fleet does not know yet. Without it the fleet would ban and drain again what an
	// operator has ended while NATS was away.
	Fleet fleet.Pending `json:"fleet,omitzero"`
}

// inheritance is the state that a process inherits at its start.
type inheritance struct {
	sockets     []int // descriptors of listening sockets, for proxy.Options.Inherited
	activated   bool  // the service manager has them too
	predecessor *predecessor
}

// activated returns the inheritance from a service manager, which may be nothing.
func activated() (b inheritance, err error) {
	for _, f := range activation.Files(true) {
		fd, takeErr := netio.TakeDescriptor(f)
		if takeErr != nil {
			err = errors.Join(err, fmt.Errorf("socket %s of the service manager: %w", f.Name(), takeErr))
			continue
		}
		b.sockets, b.activated = append(b.sockets, fd), true
	}
	return b, err
}

// trace is called before each step of an upgrade, with the step's name; nil: no trace.
type trace func(step string)

func (t trace) at(step string) {
	if t != nil {
		t(step)
	}
}

type traceKey struct{}

// TraceUpgrades returns a context in which Run calls a function before each step of an upgrade, with the step's name.
// The step waits for the function.
func TraceUpgrades(ctx context.Context, step func(string)) context.Context {
	return context.WithValue(ctx, traceKey{}, trace(step))
}

// inheritChanges follows the predecessor in what operators have changed since its message before. In the fleet, it
// shares these changes, and leaves the rest to the fleet.
func (s *service) inheritChanges(inFleet bool) {
	_ = s.bans.sync() // sync logs the error
	p := s.from.predecessor
	if p.late == nil {
		return
	}
	s.bans.inheritChanges(p.Bans, p.late.Bans)
	if !inFleet {
		s.server.InheritDrains(p.late.Drained)
	}
	eachMissing(p.late.Drained, p.Drained, s.server.DrainServer)
	eachMissing(p.Drained, p.late.Drained, s.server.UndrainServer)
	p.belongings = *p.late
}

// eachMissing calls do for each server that other lacks.
func eachMissing(of, other map[string][]netip.AddrPort, do func(string, netip.AddrPort) error) {
	for upstream, servers := range of {
		for _, server := range servers {
			if !slices.Contains(other[upstream], server) {
				_ = do(upstream, server) // it may be gone
			}
		}
	}
}
