package setup

import (
	"errors"
	"fmt"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/signalling"
)

// CheckMachine returns an error with every upstream whose sources do not work on this machine.
func CheckMachine(c *config.Config) error {
	var errs []error
	for _, u := range c.Upstreams {
		if _, err := IdentityKey(c, u.IdentityKey); err != nil {
			errs = append(errs, fmt.Errorf("upstream %s: identity_key: %w", u.Name, err))
		}
		if prefix := u.SourcePrefix(); prefix.IsValid() {
			if err := netio.CheckSources(prefix); err != nil {
				errs = append(errs, fmt.Errorf("upstream %s: sources: %w", u.Name, err))
			}
		}
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if l.TLSCertificate != "" {
			if _, err := Certificate(c, l); err != nil {
				errs = append(errs, fmt.Errorf("listener %s: tls_certificate: %w", l.Name, err))
			}
		}
		if _, err := Identity(c, l); err != nil {
			errs = append(errs, fmt.Errorf("listener %s: identity: %w", l.Name, err))
		}
	}
	return errors.Join(append(errs, checkTransparent(c))...)
}

// Certificate reads the certificate with which a listener serves NetherNet's joins.
func Certificate(c *config.Config, l *config.Listener) (*signalling.Certificate, error) {
	return signalling.LoadCertificate(c.Path(l.TLSCertificate), c.Path(l.TLSKey))
}

// spareFiles are the descriptors that the process needs beside those of its sessions.
const spareFiles = 64

// CheckFiles returns an error if this process may not open a descriptor for each session.
func CheckFiles(c *config.Config) error { return filesFor(c, FileLimit()) }

func filesFor(c *config.Config, limit uint64) error {
	need := uint64(c.Limits.Sessions) + spareFiles
	if limit == 0 || need <= limit {
		return nil
	}
	return fmt.Errorf("limits.sessions = %d needs %d descriptors, but this process may open only %d: raise ulimit -n "+
		"(LimitNOFILE= of systemd)", c.Limits.Sessions, need, limit)
}

// BufferShortfall is a kernel receive buffer that is smaller than configured.
type BufferShortfall struct {
	Key          string // for example `loop.receive_buffer`, or `upstream "games", by loop.receive_buffer,`
	Asked, Given config.Size
}

// String describes the shortfall and its remedy.
func (s BufferShortfall) String() string {
	return fmt.Sprintf("%s asks for %s, but the kernel gives only %s: %s", s.Key, s.Asked, s.Given, s.Remedy())
}

// Remedy says how to get the buffer.
func (s BufferShortfall) Remedy() string {
	return fmt.Sprintf("sysctl -w net.core.rmem_max=%d, or the capability CAP_NET_ADMIN", s.Asked)
}

// BufferShortfalls returns the receive buffers that this process cannot have as large as configured. granted returns
// the size that the kernel gives for a requested one, as netio.GrantedBuffer does.
func BufferShortfalls(c *config.Config, granted func(size int) (int, error)) (all []BufferShortfall) {
	ask := func(key string, size int) {
		if given, err := granted(size); err == nil && given < size { // opening the socket reports the error
			all = append(all, BufferShortfall{key, config.Size(size), config.Size(given)})
		}
	}
	ask("loop.receive_buffer", int(c.Loop.ReceiveBuffer))
	for _, u := range c.Upstreams {
		if u.Transport != config.TCP && (u.SourcePrefix().IsValid() || u.SharesSockets()) {
			ask(fmt.Sprintf("upstream %q, by loop.receive_buffer,", u.Name), netio.SharedBuffer(int(c.Loop.ReceiveBuffer/2)))
		}
	}
	return all
}

// checkTransparent returns an error if an upstream's sessions cannot use the players' own addresses on this machine.
func checkTransparent(c *config.Config) error {
	for _, u := range c.Upstreams {
		if !u.Transparent() {
			continue
		}
		if err := netio.CheckTransparent(); err != nil {
			return fmt.Errorf("upstream %s: sources: %w", u.Name, err)
		}
	}
	return nil
}
