package discovery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
	"tidegate/internal/filewatch"
	"tidegate/internal/regular"
	"tidegate/internal/upstream"
)

// Host returns a source: the A and AAAA records of a name are servers at a port.
func Host(name string, port uint16, l Lookup) Source {
	return &host{name: name, port: port, client: newClient(l)}
}

// Service returns a source: the SRV records of a name with the lowest priority name the hosts, ports and weights.
func Service(name string, l Lookup) Source { return &service{name: name, client: newClient(l)} }

// host is a name with addresses.
type host struct {
	name   string
	port   uint16
	client *client
}

func (h *host) String() string { return h.name + ":" + strconv.Itoa(int(h.port)) }

func (h *host) run(ctx context.Context, tell func([]upstream.Target, error)) {
	h.client.repeat(ctx, tell, func() ([]upstream.Target, time.Duration, error) {
		return h.client.addresses(ctx, h.name, upstream.Target{Weight: 1}, h.port)
	})
}

// service is a name with SRV records.
type service struct {
	name   string
	client *client
}

func (s *service) String() string { return s.name }

func (s *service) run(ctx context.Context, tell func([]upstream.Target, error)) {
	s.client.repeat(ctx, tell, func() ([]upstream.Target, time.Duration, error) { return s.find(ctx) })
}

// find queries the SRV records, and then the addresses of the hosts with the lowest priority.
func (s *service) find(ctx context.Context) (all []upstream.Target, ttl time.Duration, err error) {
	records, ttl, err := s.client.ask(ctx, s.name, dns.TypeSRV)
	if err != nil {
		return nil, 0, err
	}
	first := records[0].(*dns.SRV).Priority
	for _, r := range records {
		first = min(first, r.(*dns.SRV).Priority)
	}
	for _, r := range records {
		srv := r.(*dns.SRV)
		if srv.Priority != first {
			continue
		}
		found, t, err := s.client.addresses(ctx, srv.Target, upstream.Target{Weight: max(1, int(srv.Weight))}, srv.Port)
		if err != nil {
			return nil, 0, err // a partial result would drain the missing servers
		}
		if all, ttl = append(all, found...), min(ttl, t); len(all) > maxServers {
			return nil, 0, fmt.Errorf("more than %d servers", maxServers)
		}
	}
	return all, ttl, nil
}

// repeat calls look again whenever the last result expires.
func (c *client) repeat(ctx context.Context, tell func([]upstream.Target, error),
	look func() ([]upstream.Target, time.Duration, error)) {
	for {
		found, ttl, err := look()
		tell(found, err)
		if c.Refresh > 0 {
			ttl = min(ttl, c.Refresh)
		}
		ttl = max(ttl, c.minTTL)
		if err != nil {
			ttl = c.retryAfter
		}
		if !c.await(ctx, ttl) {
			return
		}
	}
}

// addresses returns the servers at a host's addresses of both families, with the other fields copied from like. An
// answer has room for fewer than maxServers.
func (c *client) addresses(ctx context.Context, name string, like upstream.Target, port uint16) (all []upstream.Target,
	ttl time.Duration, err error) {
	ttl = maxTTL
	for _, kind := range [...]uint16{dns.TypeA, dns.TypeAAAA} {
		records, t, err := c.ask(ctx, name, kind)
		if errors.Is(err, errNoRecords) {
			continue // one family is enough
		}
		if err != nil {
			return nil, 0, err
		}
		ttl = min(ttl, t)
		for _, r := range records {
			like.Addr = netip.AddrPortFrom(addressOf(r), port)
			if !canServe(like.Addr) {
				return nil, 0, fmt.Errorf("%s: %s is no address of a game server", name, like.Addr)
			}
			all = append(all, like)
		}
	}
	if len(all) == 0 {
		return nil, 0, fmt.Errorf("%s: %w", name, errNoRecords)
	}
	return all, ttl, nil
}

// addressOf returns the address of a record. It is not valid if the record has none.
func addressOf(r dns.RR) netip.Addr {
	var b []byte
	switch r := r.(type) {
	case *dns.A:
		b = r.A
	case *dns.AAAA:
		b = r.AAAA
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr.Unmap()
}

// maxServers bounds the servers of a source.
const maxServers = 10_000

// canServe reports whether a game server may have this address.
func canServe(at netip.AddrPort) bool {
	return at.Port() != 0 && at.IsValid() && !at.Addr().Unmap().IsUnspecified()
}

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
	if t.Addr, err = netip.ParseAddrPort(fields[0]); err != nil || !canServe(t.Addr) {
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
