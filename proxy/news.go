package proxy

import (
	"slices"
	"time"

	"tidegate/codec"
)

// knownClients are the other clients that a server has announced to a client, as Riptide does. The Relay keeps them
// only where a client may outlive its server. There are at most as many as client IDs.
type knownClients []uint16

// note notes that another client has joined or left.
func (c *knownClients) note(kind codec.EventKind, client uint16) {
	i := slices.Index(*c, client)
	switch {
	case kind == codec.Joined && i < 0:
		*c = append(*c, client)
	case kind == codec.Left && i >= 0:
		*c = slices.Delete(*c, i, i+1)
	}
}

// announceDepartures tells a client that the other clients have left, since their server is lost.
func (p *session) announceDepartures(now time.Time) {
	for _, client := range p.knownClients {
		_ = p.client.Conn.Announce(now, codec.Left, client) // a protocol without such announcements needs none
	}
	p.knownClients = nil
}
