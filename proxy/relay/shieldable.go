package relay

import (
	"errors"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/policy"
)

// Shieldable returns nil if a listener's socket can have a filter in the kernel, or the reason against it.
func (l *Listener) Shieldable() error {
	switch {
	case l.Transport.Stream:
		return errors.New("it is for UDP")
	case len(l.ProxiesFrom) > 0:
		return errors.New("players come by trusted proxies, whose addresses and headers are not theirs")
	}
	return nil
}

// FirstBytes returns the bytes that a client's datagram may begin with, and the bytes that only strangers' datagrams
// begin with. The result is empty if one of the protocols declares no first bytes. In ModeRelay any first byte is
// possible, since the proxy does not know a session's later datagrams.
func (l *Listener) FirstBytes() shield.FirstBytes {
	var possible, openings, later codec.ByteSet
	for _, p := range l.Protocols {
		spec := p.Spec()
		if spec.FirstBytes.IsEmpty() {
			return shield.FirstBytes{}
		}
		possible, openings = possible.Or(spec.FirstBytes), openings.Or(spec.Openings)
		later = later.Or(spec.FirstBytes.AndNot(spec.Openings))
	}
	if l.Route.Mode == policy.ModeRelay {
		possible = codec.ByteSet{}
	}
	return shield.FirstBytesOf(possible, openings.AndNot(later))
}
