package discovery

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"tidegate/internal/filewatch"
	"tidegate/internal/upstream"
)

// maxServers is how many servers a file may list.
const maxServers = 10_000

// File is a list of servers in a file, as ParseFile reads it.
func File(path string) Source { return &file{path} }

// file is a list of servers that is read again when it changes.
type file struct{ path string }

func (f *file) String() string { return "file:" + f.path }

func (f *file) run(ctx context.Context, tell func([]upstream.Target, error)) {
	watcher, err := filewatch.New(f.path)
	if err != nil {
		tell(nil, err)
		return
	}
	tell(f.read())
	watcher.Run(ctx, func(string) { tell(f.read()) })
}

func (f *file) read() ([]upstream.Target, error) {
	r, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	list, err := ParseFile(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return list, nil
}

// ParseFile reads a list of servers, one a line: ip:port, then weight=N and max_sessions=N if they are not 1 and without
// a bound. What is after a # is a comment. The whole list is refused if a line is wrong; the error names it.
func ParseFile(r io.Reader) ([]upstream.Target, error) {
	var list []upstream.Target
	lines := bufio.NewScanner(r)
	n := 1
	for ; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		target, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(list) == maxServers {
			return nil, fmt.Errorf("line %d: more than %d servers", n, maxServers)
		}
		list = append(list, target)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	return list, nil
}

func parseLine(fields []string) (t upstream.Target, err error) {
	t.Weight = 1
	if t.Addr, err = netip.ParseAddrPort(fields[0]); err != nil || t.Addr.Port() == 0 || t.Addr.Addr().IsUnspecified() {
		return t, fmt.Errorf("%q: want ip:port of a game server", fields[0])
	}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		number, err := strconv.Atoi(value)
		switch {
		case key == "weight" && err == nil && number >= 1 && number <= 1000:
			t.Weight = number
		case key == "max_sessions" && err == nil && number >= 0:
			t.MaxSessions = number
		default:
			return t, fmt.Errorf("%q: want weight=N, 1 to 1000, or max_sessions=N", field)
		}
	}
	return t, nil
}
