package proxy

import (
	"slices"
	"time"

	"tidegate/codec"
)

// knownClients is the other clients that a server has told a client of, as Riptide does. It is only known where the
// server may be lost and the client kept. It has at most as many as there are client IDs.
type knownClients []uint16

// note takes a piece of news.
func (c *knownClients) note(kind codec.EventKind, client uint16) {
	i := slices.Index(*c, client)
	switch {
	case kind == codec.Joined && i < 0:
		*c = append(*c, client)
	case kind == codec.Left && i >= 0:
		*c = slices.Delete(*c, i, i+1)
	}
}

// announceDepartures tells a client that the others have left, with the server where they were.
func (p *session) announceDepartures(now time.Time) {
	for _, client := range p.knownClients {
		_ = p.client.Conn.Announce(now, codec.Left, client) // a protocol without such news goes without
	}
	p.knownClients = nil
}
