package process

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the processor time of all threads of a process. It reads the scheduler's own accounting, which does
// not depend on clock ticks as rusage does.
func CPUTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("process %d has no scheduler statistics", pid)
	}
	var sum time.Duration
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := bytes.Cut(b, []byte(" "))
		ns, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("scheduler statistics of process %d: %w", pid, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// ThreadTime returns the processor time of the calling thread. The kernel delivers a datagram on loopback in the thread
// that sends it, so the delivery counts, too.
func ThreadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}

// MachineTime returns the processor time of all programs on the machine since its start.
func MachineTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	var user, nice, system, idle, waiting, irq, softirq int64
	if _, err := fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &waiting, &irq,
		&softirq); err != nil {
		return 0, fmt.Errorf("processor time of the machine: %w", err)
	}
	const tick = time.Second / 100 // USER_HZ
	return time.Duration(user+nice+system+irq+softirq) * tick, nil
}

// Group puts a command's process into a group of its own, with all processes that it starts.
func Group(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills all processes of the group that began with a process.
func KillGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// RSS returns the resident memory of a process in bytes.
func RSS(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, fmt.Errorf("memory of process %d: %q", pid, b)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Pin binds all threads of a process to one core. Threads that they create inherit this.
func Pin(pid, core int) error {
	var set unix.CPUSet
	set.Set(core)
	return setAffinity(pid, &set)
}

// Unpin lets the threads of a process use every core.
func Unpin(pid int) {
	var set unix.CPUSet
	set.Fill()
	_ = setAffinity(pid, &set) // at worst the threads stay on their core
}

// setAffinity binds all threads of a process to a set of cores.
func setAffinity(pid int, set *unix.CPUSet) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
			return fmt.Errorf("pin process %d: %w", pid, err)
		}
	}
	return nil
}

// UDPSockets lists the UDP sockets of the calling thread's network namespace. The process's first thread may be in
// another one.
const UDPSockets = "/proc/thread-self/net/udp"

// listening reports whether a UDP socket is bound to a port. It does not bind the port itself, not even for a moment.
func listening(port uint16) bool {
	has := func(table, peer string) bool {
		b, err := os.ReadFile(table)
		return err == nil && bytes.Contains(b, fmt.Appendf(nil, ":%04X %s", port, peer))
	}
	return has(UDPSockets, "00000000:0000") || has(UDPSockets+"6", strings.Repeat("0", 32)+":0000")
}

// Sink is a UDP socket on loopback for which no thread waits.
type Sink struct {
	fd int
	// Addr is the socket's address.
	Addr netip.AddrPort
}

// NewSink opens a Sink.
func NewSink() (*Sink, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &Sink{fd: fd}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: Loopback.As4()})
	if err == nil {
		var at unix.Sockaddr
		if at, err = unix.Getsockname(fd); err == nil {
			s.Addr = netip.AddrPortFrom(Loopback, uint16(at.(*unix.SockaddrInet4).Port))
			return s, nil
		}
	}
	s.Close()
	return nil, os.NewSyscallError("bind", err)
}

// Drain reads all datagrams that have arrived.
func (s *Sink) Drain() {
	var b [64]byte
	for {
		if _, _, err := unix.Recvfrom(s.fd, b[:], 0); err != nil {
			return
		}
	}
}

// Close closes the socket.
func (s *Sink) Close() { _ = unix.Close(s.fd) }
