// Package discovery finds game servers and reports changes. It looks up DNS names again when an answer expires, reads
// files again when they change, and watches the API server of a Kubernetes cluster. It runs beside the loops, which
// never wait for it. If a source fails, its last result stays in force.
//
// Start with Host, Service, File, Endpoints and GameServers, which are sources, and Watch.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/rs/zerolog"
	"tidegate/internal/pause"
	"tidegate/internal/upstream"
)

// Source is a place where servers are found.
type Source interface {
	// String returns the source as configured.
	String() string
	// run calls tell with the servers found, or with an error if the lookup failed, until ctx is done.
	run(ctx context.Context, tell func([]upstream.Target, error))
}

// Watch calls found with the servers of all sources together whenever they change, until ctx is done. It returns at
// once. Calls of found do not overlap.
func Watch(ctx context.Context, sources []Source, log zerolog.Logger, found func([]upstream.Target)) {
	w := &watch{
		found: found, log: log, lists: make([][]upstream.Target, len(sources)), told: make([]bool, len(sources)),
		failed: make([]bool, len(sources)),
	}
	for i, source := range sources {
		go source.run(ctx, func(list []upstream.Target, err error) { w.tell(ctx, i, source, list, err) })
	}
}

// Ask returns the number of servers that a source has now.
func Ask(ctx context.Context, source Source) (servers int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		servers int
		err     error
	}
	first := make(chan result, 1)
	go source.run(ctx, func(list []upstream.Target, err error) {
		select {
		case first <- result{len(list), err}:
		default: // a later one
		}
	})
	select {
	case r := <-first:
		return r.servers, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// watch merges the results of the sources.
type watch struct {
	found func([]upstream.Target)
	log   zerolog.Logger

	mu     sync.Mutex // guards the fields below, and calls of found
	lists  [][]upstream.Target
	told   []bool // once without an error
	failed []bool
}

func (w *watch) tell(ctx context.Context, i int, source Source, list []upstream.Target, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !w.failed[i] { // log the first failure only
			w.log.Warn().Stringer("source", source).Int("servers", len(w.lists[i])).Err(err).
				Msg("server discovery failed; the last result stays")
		}
		w.failed[i] = true
		return
	}
	w.failed[i] = false
	slices.SortFunc(list, func(a, b upstream.Target) int { return a.Addr.Compare(b.Addr) })
	list = slices.CompactFunc(list, func(a, b upstream.Target) bool { return a.Addr == b.Addr })
	changed := !slices.Equal(list, w.lists[i])
	if changed || !w.told[i] { // the first list may be empty, which an operator wants to know
		w.log.Info().Stringer("source", source).Int("servers", len(list)).Msg("servers discovered")
	}
	w.told[i] = true
	if changed {
		w.lists[i] = list
		w.found(slices.Concat(w.lists...))
	}
}

// Bounds of an answer's lifetime, for any TTL: a TTL of 0 must not cause a loop of queries, and a TTL of a day
// must not hide a change. While servers are in trouble, an answer counts for minTTL.
const (
	minTTL = 5 * time.Second
	maxTTL = 10 * time.Minute
)

// watchEvery is how soon a client notices that servers are in trouble.
const watchEvery = 500 * time.Millisecond

// Lookup is the way in which names are looked up.
type Lookup struct {
	Resolver string        // ip:port; empty: the system's
	Refresh  time.Duration // longest time until a name is looked up again; 0: as its TTL says
	// Troubled reports whether servers that were found refuse or are silent. Then names are looked up again soon. It is
	// safe for concurrent use. Nil: never.
	Troubled func() bool
}

// retryAfter is the pause after a failed query.
const retryAfter = 5 * time.Second

// answerTime is the longest wait for a resolver.
const answerTime = 3 * time.Second

// errNoRecords is an error, since an empty name is more likely a mistake than a request to stop all servers.
var errNoRecords = errors.New("no such records")

// client queries a resolver. Unlike the system's resolver functions, it knows the TTL of each record.
type client struct {
	Lookup
	minTTL     time.Duration
	retryAfter time.Duration
}

func newClient(l Lookup) *client { return &client{Lookup: l, minTTL: minTTL, retryAfter: retryAfter} }

// ask returns the records of a name, at least one, and their lifetime.
func (c *client) ask(ctx context.Context, name string, kind uint16) ([]dns.RR, time.Duration, error) {
	server, err := c.resolver()
	if err != nil {
		return nil, 0, err
	}
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	question.SetEdns0(1232, false)
	answer, _, err := (&dns.Client{Timeout: answerTime}).ExchangeContext(ctx, question, server)
	if err == nil && answer.Truncated {
		answer, _, err = (&dns.Client{Net: "tcp", Timeout: answerTime}).ExchangeContext(ctx, question, server)
	}
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("ask %s for %s: %w", server, name, err)
	case answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError:
		return nil, 0, fmt.Errorf("ask %s for %s: %s", server, name, dns.RcodeToString[answer.Rcode])
	}
	var records []dns.RR
	ttl := maxTTL
	for _, r := range answer.Answer { // includes the CNAMEs, whose TTLs count too
		ttl = min(ttl, time.Duration(r.Header().Ttl)*time.Second)
		if r.Header().Rrtype == kind {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil, 0, fmt.Errorf("%s: %w", name, errNoRecords)
	}
	return records, ttl, nil
}

// resolver returns the server to ask. It reads /etc/resolv.conf each time, since the file may have changed.
func (c *client) resolver() (string, error) {
	if c.Resolver != "" {
		return c.Resolver, nil
	}
	system, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil {
		return "", fmt.Errorf("find the resolver: %w", err)
	}
	if len(system.Servers) == 0 {
		return "", errors.New("find the resolver: /etc/resolv.conf names none")
	}
	return net.JoinHostPort(system.Servers[0], system.Port), nil
}

// await pauses for d, or until servers fall into trouble, or for c.minTTL if they were in trouble before. It returns
// false if ctx is done earlier.
func (c *client) await(ctx context.Context, d time.Duration) bool {
	if c.Troubled == nil {
		return pause.For(ctx, d)
	}
	asked, had := time.Now(), c.Troubled()
	for left := d; left > 0; left = d - time.Since(asked) {
		if !pause.For(ctx, min(watchEvery, left)) {
			return false
		}
		has := c.Troubled()
		if has && (!had || time.Since(asked) >= c.minTTL) {
			break
		}
		had = has
	}
	return true
}
