package relay

import (
	"bytes"
	"sync/atomic"

	"tidegate/codec"
)

// Pong is a listener's answer about its upstream's servers, for clients that ask without a session. One Relay writes
// it, and the others read it. It is safe for concurrent use.
type Pong struct {
	listing atomic.Pointer[listing]
	other   atomic.Pointer[listing] // what the servers say in another way
}

// listing is the servers' own text. It is immutable.
type listing struct {
	text []byte // of all servers together
	pong []byte // the datagram of one server with its own text
}

// Text returns the servers' present text, or nil while there is none. The caller must not change it. Text does not
// allocate.
func (p *Pong) Text() []byte {
	if l := p.present(); l != nil {
		return l.text
	}
	return nil
}

// present returns what the servers have answered, or what they say in another way, or nil.
func (p *Pong) present() *listing {
	if l := p.listing.Load(); l != nil {
		return l
	}
	return p.other.Load()
}

// SetElse publishes a text and a server's pong for as long as no server answers itself. It keeps both. An empty pong
// publishes nothing.
func (p *Pong) SetElse(text, pong []byte) {
	if len(pong) == 0 {
		p.other.Store(nil)
		return
	}
	p.other.Store(&listing{text, pong})
}

// set publishes copies of a text and of a server's pong, if they have changed. An empty pong publishes nothing, so
// that no text counts.
func (p *Pong) set(text, pong []byte) {
	old := p.listing.Load()
	switch {
	case len(pong) == 0:
		p.listing.Store(nil)
	case old == nil || !bytes.Equal(old.text, text) || !bytes.Equal(old.pong, pong):
		p.listing.Store(&listing{bytes.Clone(text), bytes.Clone(pong)})
	}
}

// answer appends the answer to a ping as a server would give it, if any server has answered.
func (p *Pong) answer(b, ping []byte, protocol codec.Pinger) []byte {
	l := p.present()
	if l == nil {
		return b
	}
	return protocol.AppendPong(b, ping, l.pong, l.text)
}
