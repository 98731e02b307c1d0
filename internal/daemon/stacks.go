package daemon

import (
	"errors"

	"tidegate/internal/config"
	"tidegate/internal/setup"
	"tidegate/internal/signalling"
	"tidegate/internal/webrtc"
	"tidegate/proxy/relay"
)

// stacks returns what begins the stacks of NetherNet's clients. The first listener that needs it makes it. The caller
// has the lock.
func (s *joinServers) stacks(settings *relay.Settings) relay.Stacks {
	if s.host == nil {
		limits := webrtc.DefaultLimits
		limits.Stacks = max(limits.Stacks, 2*settings.Limits.Sessions)
		host, err := webrtc.NewHost(limits)
		if err != nil {
			s.log.Error().Err(err).Msg("NetherNet clients of routes that terminate cannot come in")
			return nil
		}
		s.host = host
	}
	return s.host
}

var errNoHost = errors.New("there is no certificate")

// own returns how a listener answers joins itself.
func (s *joinServers) own(l *relay.Listener, c *config.Config) (*signalling.Own, error) {
	if s.host == nil {
		return nil, errNoHost
	}
	own, err := setup.Identity(c, set(l, c))
	if err != nil {
		return nil, err
	}
	own.Fingerprint = s.host.Fingerprint()
	own.Status = func() []byte {
		if l.Pong == nil {
			return nil
		}
		return l.Pong.Text()
	}
	return own, nil
}

// dismiss ends the sessions that no successor can have, and refuses further joins of such sessions. It returns their
// number.
func (s *joinServers) dismiss() int {
	s.mu.Lock()
	host := s.host
	s.mu.Unlock()
	if host == nil {
		return 0
	}
	s.dismisses.Store(true)
	return s.server.DismissStacked()
}
