package proxy

import (
	"bytes"
	"sync/atomic"
	"time"
)

// Pong is what a listener says of its upstream's servers to whoever asks without a session. One Relay makes the text,
// and the listener's protocols give it away: safe for concurrent use.
type Pong struct {
	text atomic.Pointer[[]byte]
}

// Text is the servers' text as of now, nil while there is none. It must not be changed. It does not allocate.
func (p *Pong) Text() []byte {
	if text := p.text.Load(); text != nil {
		return *text
	}
	return nil
}

// set publishes a copy of a text, unless it is the one there already; nil for none.
func (p *Pong) set(text []byte) {
	if old := p.text.Load(); old != nil && bytes.Equal(*old, text) {
		return
	}
	if len(text) == 0 {
		p.text.Store(nil)
		return
	}
	fresh := bytes.Clone(text)
	p.text.Store(&fresh)
}

// Pings are how a Route's servers are asked for their texts.
type Pings struct {
	Refresh time.Duration // from one question to the next; 0: none is asked
	Keep    time.Duration // how long the text of a server that falls silent counts
	Name    string        // to be listed in place of the servers'; empty: theirs
}
