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

	"tidegate/internal/setup"
)

// successorTime is how long a successor may take until it is ready.
const successorTime = 30 * time.Second

// upgrades has SIGUSR2 from the time of CatchSignals on.
var upgrades = make(chan os.Signal, 1)

func catchUpgrades() { signal.Notify(upgrades, syscall.SIGUSR2) }

// onSignal upgrades at SIGUSR2 until ctx is done, or until it has worked.
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

// upgrade replaces the process, or tells why it could not be.
func (u *upgrader) upgrade() bool {
	u.under.Lock()
	defer u.under.Unlock()
	s, err := u.succeed()
	if err != nil {
		u.log.Error().Err(err).Str("program", u.program).Msg("not upgraded; this process goes on")
		return false
	}
	u.log.Info().Int("successor", s.pid).Str("program", u.program).Str("successor_version", s.version).
		Msg("handed over; ending with the last session")
	return true
}

// successor is the process that takes over from this one.
type successor struct {
	pid     int
	version string // empty: it is a release that does not tell
}

// succeed starts a successor and hands the listeners over to it. An error leaves everything as it was.
func (u *upgrader) succeed() (s successor, err error) {
	files, err := u.server.Files()
	if err != nil {
		return s, err
	}
	defer closeFiles(files) // the successor has copies
	elders, err := u.from.elders.copies()
	if err != nil {
		return s, err
	}
	defer closeFiles(elders)
	process, pipe, err := u.start(files, elders)
	if err != nil {
		return s, fmt.Errorf("start successor: %w", err)
	}
	s.pid = process.Process.Pid
	if err := u.handOver(newConversation(pipe), &s, len(elders)); err != nil {
		_ = pipe.Close()
		_ = process.Process.Kill()
		_ = process.Wait()
		return s, err
	}
	u.pipe = pipe
	go func() { _ = process.Wait() }() // it is on its own now
	return s, nil
}

func (u *upgrader) handOver(c *conversation, s *successor, elders int) error {
	text, err := json.Marshal(legacy{
		Secrets: setup.CurrentSecrets(), Drained: u.server.Drained(), Elders: elders, Activated: u.from.legacy.Activated,
		Version: Version(),
	})
	if err != nil {
		return err
	}
	if err := c.say(string(text)); err != nil {
		return err
	}
	if s.version, err = c.hear(saysReady); err != nil {
		return fmt.Errorf("the successor did not become ready: %w", err)
	}
	if err := u.server.HandOver(u.grace()); err != nil {
		return err
	}
	u.leave()
	manager.succeededBy(s.pid) // first: the service manager only listens to the main process
	_ = c.say(saysGo)          // if it is gone by now there is no way back, and a service manager starts another
	return nil
}

// start runs the program file anew, as this process was run. The pipe fails once successorTime is over.
func (u *upgrader) start(listeners, elders []*os.File) (*exec.Cmd, *os.File, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "successor"), os.NewFile(uintptr(pair[1]), "predecessor")
	defer func() { _ = theirs.Close() }()
	successor := exec.Command(u.program, os.Args[1:]...)
	successor.Stdout, successor.Stderr = os.Stdout, os.Stderr
	successor.Env = append(os.Environ(), successorEnv+"="+strconv.Itoa(len(listeners)))
	successor.ExtraFiles = slices.Concat([]*os.File{theirs}, listeners, elders)
	err = errors.Join(ours.SetDeadline(time.Now().Add(successorTime)), successor.Start())
	if err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return successor, ours, nil
}
