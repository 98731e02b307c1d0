package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"tidegate/internal/admin"
	"tidegate/internal/setup"
)

// successorTime is the longest time until a successor is ready.
const successorTime = 30 * time.Second

// upgrades receives SIGUSR2 after CatchSignals.
var upgrades = make(chan os.Signal, 1)

func catchUpgrades() { signal.Notify(upgrades, syscall.SIGUSR2) }

// onSignal upgrades at SIGUSR2 until ctx is done or an upgrade succeeds.
func (u *upgrader) onSignal(ctx context.Context) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-upgrades:
			}
			if u.upgrade() {
				return
			}
		}
	}()
}

// request begins an upgrade, unless one is about to begin.
func (u *upgrader) request() error {
	u.state.Store(&admin.Upgrade{Running: true})
	select {
	case upgrades <- syscall.SIGUSR2:
	default: // the waiting request does the same
	}
	return nil
}

// upgrade replaces the process, or logs why it failed. It reports success.
func (u *upgrader) upgrade() bool {
	u.running.Lock()
	defer u.running.Unlock()
	u.state.Store(&admin.Upgrade{Running: true})
	s, err := u.startSuccessor()
	if err != nil {
		u.state.Store(&admin.Upgrade{Error: err.Error()})
		u.log.Error().Err(err).Str("program", u.program).Msg("upgrade failed; this process continues")
		return false
	}
	u.log.Info().Int("successor", s.pid).Str("program", u.program).Str("successor_version", s.version).
		Msg("handed over; ending with the last session")
	return true
}

// successor is the process that takes over.
type successor struct {
	pid     int
	version string // empty: the release does not send its version
}

// startSuccessor starts a successor and hands the listeners over to it. An error changes nothing.
func (u *upgrader) startSuccessor() (s successor, err error) {
	files, err := u.server.Files()
	if err != nil {
		return s, err
	}
	defer closeFiles(files) // the successor has copies
	predecessors, err := u.from.predecessors.copies()
	if err != nil {
		return s, err
	}
	defer closeFiles(predecessors)
	process, pipe, err := u.start(files, predecessors)
	if err != nil {
		return s, fmt.Errorf("start successor: %w", err)
	}
	s.pid = process.Process.Pid
	if err := u.handOver(newConversation(pipe), &s, len(predecessors)); err != nil {
		_ = pipe.Close()
		_ = process.Process.Kill()
		_ = process.Wait()
		return s, err
	}
	u.pipe = pipe
	go func() { _ = process.Wait() }() // the successor runs on its own now
	return s, nil
}

func (u *upgrader) handOver(c *conversation, s *successor, predecessors int) error {
	text, err := json.Marshal(handover{
		Secrets: setup.CurrentSecrets(), Drained: u.server.Drained(), Predecessors: predecessors,
		Activated: u.from.handover.Activated,
		Version:   Version(),
	})
	if err != nil {
		return err
	}
	if err := c.send(string(text)); err != nil {
		return err
	}
	if s.version, err = c.receive(wordReady); err != nil {
		return fmt.Errorf("successor not ready: %w", err)
	}
	if err := u.server.HandOver(u.grace()); err != nil {
		return err
	}
	u.leave()
	manager.succeededBy(s.pid) // first: the service manager accepts messages only from the main process
	// Too late for a way back: if the successor has died, a service manager restarts the service.
	_ = c.send(wordGo)
	return nil
}

// start runs the program file with this process's arguments. The pipe fails after successorTime.
func (u *upgrader) start(listeners, predecessors []*os.File) (*exec.Cmd, *os.File, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "successor"), os.NewFile(uintptr(pair[1]), "predecessor")
	defer func() { _ = theirs.Close() }()
	successor := exec.Command(u.program, os.Args[1:]...)
	successor.Stdout, successor.Stderr = os.Stdout, os.Stderr
	successor.Env = append(os.Environ(), successorEnv+"="+strconv.Itoa(len(listeners)))
	successor.ExtraFiles = slices.Concat([]*os.File{theirs}, listeners, predecessors)
	err = errors.Join(ours.SetDeadline(time.Now().Add(successorTime)), successor.Start())
	if err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return successor, ours, nil
}
