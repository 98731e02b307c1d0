package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"

	"tidegate/internal/config"
	"tidegate/internal/filewatch"
	"tidegate/internal/policy"
	"tidegate/internal/setup"
	"tidegate/internal/signalling"
	"tidegate/internal/webrtc"
	"tidegate/proxy/relay"
)

// terminate gives a listener on a route that terminates what runs the stacks of its clients and servers. The first such
// listener makes it. The caller has the lock.
func (s *joinServers) terminate(l *relay.Listener, settings *relay.Settings, c *config.Config) {
	u := l.Route.Upstream
	joins := u.Protocol == relay.NetherNet
	if l.Route.Mode != policy.ModeTerminate || !joins && !isEdge(l) {
		return
	}
	if s.host == nil {
		limits := webrtc.DefaultLimits
		limits.Stacks = max(limits.Stacks, 2*settings.Limits.Sessions)
		host, err := webrtc.NewHost(limits, s.secretOf(l, c))
		if err != nil {
			s.log.Error().Err(err).Msg("no NetherNet connection of routes that terminate can begin")
			return
		}
		s.host = host
	}
	l.Stacks = s.host
	if _, err := s.host.Certify(s.secretOf(l, c)); err != nil { // joins of a predecessor may need it
		s.log.Error().Err(err).Str("listener", l.Name).Msg("NetherNet clients cannot come in")
	}
	if joins && u.Joiner == nil {
		s.join(u, s.host, c)
	}
}

var errNoHost = errors.New("there is no certificate")

// own returns how a listener answers joins itself.
func (s *joinServers) own(one *joinServer, l *relay.Listener, c *config.Config) (*signalling.Own, error) {
	if s.host == nil {
		return nil, errNoHost
	}
	own, err := setup.Identity(c, set(l, c))
	if err != nil {
		return nil, err
	}
	if own.Fingerprint, err = s.host.Certify(s.secretOf(l, c)); err != nil {
		return nil, err
	}
	own.Status = func() []byte {
		if pong := one.terms.Load().pong; pong != nil {
			return pong.Text()
		}
		return nil
	}
	return own, nil
}

// renew reads the files of a listener's identity again. After an error the identity stays as it was.
func (s *joinServers) renew(server *signalling.Server, one *joinServer, key *ecdsa.PrivateKey, l *relay.Listener,
	c *config.Config) error {
	own, err := s.own(one, l, c)
	if err != nil {
		return err
	}
	if one.files.identityKey == "" { // otherwise the key is new each time
		own.Key = key
	}
	server.Renew(own)
	return nil
}

// watch loads again when files change, until ctx is done.
func (s *joinServers) watch(ctx context.Context, what string, load func() error, c *config.Config, names []string) {
	var files []string
	for _, name := range names {
		if name != "" {
			files = append(files, c.Path(name))
		}
	}
	if len(files) == 0 {
		return
	}
	w, err := filewatch.New(files...)
	if err != nil {
		s.log.Warn().Err(err).Str("what", what).Msg("changes of files will not be noticed")
		return
	}
	w.Run(ctx, func(file string) {
		if err := load(); err != nil {
			s.log.Warn().Err(err).Str("file", file).Msg(what + " could not be read")
			return
		}
		s.log.Info().Str("file", file).Msg(what + " read again")
	})
}

// secretOf returns the secret of the stacks' certificate. The nodes of a fleet share it with their identity.
func (s *joinServers) secretOf(l *relay.Listener, c *config.Config) [32]byte {
	if file := set(l, c).IdentityKey; file != "" {
		if key, err := setup.IdentityKey(c, file); err == nil {
			b, _ := key.Bytes() // an error needs another curve
			return sha256.Sum256(b)
		}
	}
	return s.seed
}
