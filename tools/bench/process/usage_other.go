//go:build !linux

package process

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"time"
)

// Processor time and memory are known on Linux only.

// CPUTime fails.
func CPUTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// ThreadTime fails.
func ThreadTime() (time.Duration, error) { return 0, errors.ErrUnsupported }

// MachineTime fails.
func MachineTime() (time.Duration, error) { return 0, errors.ErrUnsupported }

// Group does nothing: there are no upgrades.
func Group(*exec.Cmd) {}

// KillGroup kills the process.
func KillGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// RSS fails.
func RSS(int) (int64, error) { return 0, errors.ErrUnsupported }

// Pin fails.
func Pin(int, int) error { return errors.ErrUnsupported }

// Unpin does nothing.
func Unpin(int) {}

// Sink is a UDP socket on loopback.
type Sink struct{ Addr netip.AddrPort }

// NewSink fails.
func NewSink() (*Sink, error) { return nil, errors.ErrUnsupported }

// Drain does nothing.
func (*Sink) Drain() {}

// Close does nothing.
func (*Sink) Close() {}

// listening cannot be known.
func listening(uint16) bool { return false }
