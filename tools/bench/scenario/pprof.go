package scenario

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// allocations starts to count the allocations of a subject's process. The returned function returns their number since
// then, less those of the question itself. It returns a negative number for a subject without an admin address.
func (s *subject) allocations() (since func() (float64, error), err error) {
	if !s.admin.IsValid() {
		return func() (float64, error) { return -1, nil }, nil
	}
	var before [2]float64
	for i := range before {
		if before[i], err = mallocs(s.admin); err != nil {
			return nil, err
		}
	}
	return func() (float64, error) {
		now, err := mallocs(s.admin)
		return max(0, now-before[1]-(before[1]-before[0])), err
	}, nil
}

// mallocs returns the number of objects that a Go process has allocated so far.
func mallocs(admin netip.AddrPort) (float64, error) {
	return heapFigure(admin, "debug=1", "# Mallocs = ")
}

// heap returns the bytes of a Go process's objects, without garbage.
func heap(admin netip.AddrPort) (float64, error) {
	return heapFigure(admin, "gc=1&debug=1", "# HeapAlloc = ")
}

// heapFigure reads a figure of a process's heap profile.
func heapFigure(admin netip.AddrPort, query, name string) (float64, error) {
	answer, err := http.Get(fmt.Sprintf("http://%v/debug/pprof/heap?%s", admin, query))
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("heap profile at %v: %s, without %q", admin, answer.Status, name)
}

// profile writes a CPU profile of the subject under load for go tool pprof, if the options name a folder.
func (s *subject) profile(o *Options) error {
	if o.Profiles == "" || !s.admin.IsValid() {
		return nil
	}
	if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
		return err
	}
	const seconds = 3
	done := make(chan error, 1)
	go func() {
		done <- download(fmt.Sprintf("http://%v/debug/pprof/profile?seconds=%d", s.admin, seconds),
			filepath.Join(o.Profiles, s.Name+".pb.gz"))
	}()
	if err := s.play(o, seconds*time.Second); err != nil {
		return err
	}
	return <-done
}

func download(url, file string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, answer.Body)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
