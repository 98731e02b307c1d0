package proxy

import (
	"bytes"
	"sync/atomic"
	"time"

	"tidegate/codec"
)

// Pong is what a listener says of its upstream's servers to a client that asks without a session. One Relay makes it,
// and the others read it: safe for concurrent use.
type Pong struct {
	listing atomic.Pointer[listing]
}

// listing is what servers say of themselves. It is never changed.
type listing struct {
	text []byte // of all of them
	pong []byte // datagram by which one of them said its own
}

// Text is the servers' text as of now, nil while there is none. It must not be changed. It does not allocate.
func (p *Pong) Text() []byte {
	if l := p.listing.Load(); l != nil {
		return l.text
	}
	return nil
}

// set publishes copies of a text and of a server's pong, unless they are there already; no pong: nothing.
func (p *Pong) set(text, pong []byte) {
	old := p.listing.Load()
	switch {
	case len(pong) == 0:
		p.listing.Store(nil)
	case old == nil || !bytes.Equal(old.text, text) || !bytes.Equal(old.pong, pong):
		p.listing.Store(&listing{bytes.Clone(text), bytes.Clone(pong)})
	}
}

// answer appends the answer to a ping as a server would give it, if a server has said anything.
func (p *Pong) answer(b, ping []byte, protocol codec.Pinger) []byte {
	l := p.listing.Load()
	if l == nil {
		return b
	}
	return protocol.AppendPong(b, ping, l.pong, l.text)
}

// Pings are how a Route's servers are asked for their texts.
type Pings struct {
	Refresh time.Duration // from one question to the next; 0: none is asked
	Keep    time.Duration // how long the text of a server that falls silent counts
	Name    string        // to be listed in place of the servers'; empty: theirs
}
