package discovery

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"tidegate/internal/filewatch"
	"tidegate/internal/regular"
	"tidegate/internal/upstream"
)

// maxServers bounds the servers in a file.
const maxServers = 10_000

// File returns a source that reads a file as ParseFile does.
func File(path string) Source { return &file{path} }

// file is a source that reads a list again when the file changes.
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
	r, err := regular.Open(f.path)
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

// ParseFile reads one server per line: ip:port, then optionally weight=N (default 1) and max_sessions=N (default
// unlimited). A comment starts with #. If any line is wrong, ParseFile rejects the whole list; the error names the
// line.
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
