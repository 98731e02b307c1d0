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
	pid, err := u.succeed()
	if err != nil {
		u.log.Error().Err(err).Msg("not upgraded; this process goes on")
		return false
	}
	manager.succeededBy(pid)
	u.log.Info().Int("successor", pid).Str("program", program).Msg("handed over; ending with the last session")
	return true
}

// succeed starts a successor and hands the listeners over to it. An error leaves everything as it was.
func (u *upgrader) succeed() (pid int, err error) {
	files, err := u.server.Files()
	if err != nil {
		return 0, err
	}
	defer closeFiles(files) // the successor has copies
	elders, err := u.from.elders.copies()
	if err != nil {
		return 0, err
	}
	defer closeFiles(elders)
	successor, pipe, err := startSuccessor(files, elders)
	if err != nil {
		return 0, fmt.Errorf("start successor: %w", err)
	}
	if err := u.handOver(newConversation(pipe), len(elders)); err != nil {
		_ = pipe.Close()
		_ = successor.Process.Kill()
		_ = successor.Wait()
		return 0, err
	}
	u.pipe = pipe
	go func() { _ = successor.Wait() }() // what becomes of it is not ours any more
	return successor.Process.Pid, nil
}

func (u *upgrader) handOver(c *conversation, elders int) error {
	text, err := json.Marshal(legacy{
		Secrets: setup.CurrentSecrets(), Drained: u.server.Drained(), Elders: elders, Activated: u.from.legacy.Activated,
	})
	if err != nil {
		return err
	}
	if err := c.say(string(text) + "\n"); err != nil {
		return err
	}
	if err := c.hear(saysReady); err != nil {
		return fmt.Errorf("the successor did not become ready: %w", err)
	}
	if err := u.server.HandOver(u.grace()); err != nil {
		return err
	}
	u.leave()
	_ = c.say(saysGo) // if it is gone by now there is no way back, and a service manager starts another
	return nil
}

// program is the path of the program file when the process began. The kernel follows a file that is moved aside later, and
// an upgrade wants the file that has taken its place.
var program, errProgram = os.Executable()

// startSuccessor runs the program file anew, as this process was run. The pipe fails once successorTime is over.
func startSuccessor(listeners, elders []*os.File) (*exec.Cmd, *os.File, error) {
	if errProgram != nil {
		return nil, nil, errProgram
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "successor"), os.NewFile(uintptr(pair[1]), "predecessor")
	defer func() { _ = theirs.Close() }()
	successor := exec.Command(program, os.Args[1:]...)
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
