package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"
)

// Bounds of how long an answer counts, whatever it says itself: a TTL of 0 must not make a loop of questions, and one of a
// day must not hide a change.
const (
	least = 5 * time.Second
	most  = 10 * time.Minute
)

// again is when a question is repeated that got no answer.
const again = 5 * time.Second

// answerTime is how long a resolver may take.
const answerTime = 3 * time.Second

// errNothing: a name that stands for nothing is rather a mistake than the wish that nobody plays.
var errNothing = errors.New("no such records")

// client asks a resolver. It knows the records' TTLs, as the system's own resolver functions do not.
type client struct {
	server string // ip:port; empty: that of /etc/resolv.conf
	least  time.Duration
	again  time.Duration
}

func newClient(server string) *client { return &client{server: server, least: least, again: again} }

// ask returns the records of a name, at least one, and how long they count.
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
	ttl := most
	for _, r := range answer.Answer { // with the CNAMEs on the way, whose time counts too
		ttl = min(ttl, time.Duration(r.Header().Ttl)*time.Second)
		if r.Header().Rrtype == kind {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil, 0, fmt.Errorf("%s: %w", name, errNothing)
	}
	return records, ttl, nil
}

// resolver is the server to ask. /etc/resolv.conf may have changed since the last time.
func (c *client) resolver() (string, error) {
	if c.server != "" {
		return c.server, nil
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

// wait waits for a time, and reports false where ctx is done before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
