package daemon

import (
	"context"
	"net/netip"
	"strings"
	"sync"

	"tidegate/codec/nethernet"
	"tidegate/internal/config"
	"tidegate/internal/setup"
	"tidegate/internal/signalling"
	"tidegate/internal/webrtc"
	"tidegate/proxy/relay"
)

// calls implements relay.Joiner for the servers of an upstream. The Host has Dial.
type calls struct {
	caller *signalling.Caller
	*webrtc.Host
}

// Join implements relay.Joiner.
func (c *calls) Join(server netip.AddrPort, wake func()) relay.Question {
	ctx, cancel := context.WithCancel(context.Background())
	q := &question{cancel: cancel}
	go func() {
		defer cancel()
		answer, err := c.caller.Join(ctx, server)
		q.mu.Lock()
		q.answer, q.err = answer, err
		q.mu.Unlock()
		wake()
	}()
	return q
}

// question implements relay.Question.
type question struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	answer *nethernet.Answer
	err    error
}

// Take implements relay.Question.
func (q *question) Take() (*nethernet.Answer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answer, q.err
}

// Abandon implements relay.Question.
func (q *question) Abandon() { q.cancel() }

// join lets an upstream's servers be joined. The caller has the lock.
func (s *joinServers) join(u *relay.Upstream, host *webrtc.Host, c *config.Config) {
	of := upstreamOf(c, u.Name)
	key, err := s.key, error(nil)
	if of.IdentityKey != "" || key == nil {
		key, err = setup.IdentityKey(c, of.IdentityKey)
	}
	if err != nil {
		s.log.Error().Str("upstream", u.Name).Err(err).Msg("NetherNet servers cannot be joined")
		return
	}
	if of.IdentityKey == "" {
		s.key = key
	}
	u.Joiner = &calls{signalling.NewCaller(key, host.Fingerprint(), of.NAT), host}
}

// upstreamOf returns the configuration of an upstream, which has the name of its first port. The names of others have
// their port after it.
func upstreamOf(c *config.Config, name string) *config.Upstream {
	for i := range c.Upstreams {
		if u := &c.Upstreams[i]; name == u.Name || strings.HasPrefix(name, u.Name+":") {
			return u
		}
	}
	return new(config.Upstream) // removed, with sessions of a predecessor
}
