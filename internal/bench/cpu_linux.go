package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf is the processor time that the threads of a process have had, by the scheduler's own accounting. Unlike the times of
// rusage it does not depend on when the clock ticks.
func cpuOf(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("process %d has no accounts", pid)
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
			return 0, fmt.Errorf("accounts of process %d: %w", pid, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// rssOf is the resident memory of a process in bytes.
func rssOf(pid int) (int64, error) {
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

// pin keeps all threads of a process on one core, and those that they make.
func pin(pid, core int) error {
	var set unix.CPUSet
	set.Set(core)
	return place(pid, &set)
}

// unpin lets the threads of a process have every core.
func unpin(pid int) {
	var set unix.CPUSet
	set.Fill()
	_ = place(pid, &set) // at worst they stay where they are
}

// place keeps all threads of a process on some cores.
func place(pid int, set *unix.CPUSet) error {
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

// udpSockets lists those of the calling thread's namespace. That of the process's first thread may be another by now.
const udpSockets = "/proc/thread-self/net/udp"

// listening reports whether a UDP socket has a port, without taking the port for a moment to find out.
func listening(port uint16) bool {
	b, err := os.ReadFile(udpSockets)
	return err == nil && bytes.Contains(b, fmt.Appendf(nil, ":%04X 00000000:0000", port))
}
