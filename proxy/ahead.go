package proxy

import (
	"time"

	"tidegate/codec"
)

// The Relay asks a server ahead where both protocols are a codec.Granter. The client waits until the server has
// granted or refused the connection. The data of the client's Hello follows after the grant.

// askFirst asks a server about a new client before the client is granted its connection.
func (r *Relay) askFirst(now time.Time, e *entry) {
	p := &e.Value
	client := p.client.Conn.(codec.Deferrer)
	client.Defer()
	p.ahead = true
	p.identify(client.Identity(), &r.identities)
	r.dial(now, e, nil)
}

// granted lets the client go on. A client that another server has granted before keeps that server's identity.
func (r *Relay) granted(now time.Time, e *entry, server uint64) {
	if p := &e.Value; p.client.Live() {
		p.client.Conn.(codec.Deferrer).Grant(now, server)
		r.dirty.mark(e)
	}
}

// introduce sends the client's Hello to the server that was asked ahead.
func (r *Relay) introduce(now time.Time, e *entry) {
	p := &e.Value
	p.ahead = false
	if p.upstream.Live() {
		p.upstream.Conn.(codec.Introducer).Introduce(now, p.hello)
		r.dirty.mark(e)
	}
}
