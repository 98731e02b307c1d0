package bench

import (
	"bufio"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// allocations begins to count what a subject's process allocates. The function that it returns tells how many there
// have been since, less what the question itself takes; a negative number of a subject that does not tell.
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

// mallocs is how many objects a Go process has allocated so far.
func mallocs(admin netip.AddrPort) (float64, error) {
	return heapFigure(admin, "debug=1", "# Mallocs = ")
}

// heap is how many bytes a Go process needs for its objects, garbage not included.
func heap(admin netip.AddrPort) (float64, error) {
	return heapFigure(admin, "gc=1&debug=1", "# HeapAlloc = ")
}

// heapFigure is a figure in a process's profile of the heap.
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
	return 0, fmt.Errorf("profile of the heap at %v: %s, without %q", admin, answer.Status, name)
}
