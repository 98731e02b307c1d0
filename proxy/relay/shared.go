package relay

import (
	"time"

	"tidegate/internal/upstream"
	"tidegate/proxy/relay/admission"
	"tidegate/session"
)

// Shared is what the Relays of one Server share. Each part has its own short lock, or is atomic.
type Shared struct {
	Pools     *upstream.Pools      // the servers of upstreams
	Players   *Players             // clients as a fleet knows them
	presence  *Presence            // clients that name themselves
	arrivals  *Arrivals            // sessions that wait for their clients
	handed    *Handed              // datagrams for another Relay
	allowance *admission.Allowance // of unproved clients
	holders   *admission.Holders   // memory that is held for each address
	places    *session.Places      // sessions of each address and network
}

// NewShared returns what Relays share that are made at now. The seed is secret.
func NewShared(now time.Time, seed uint64) *Shared {
	return &Shared{
		Pools: new(upstream.Pools), Players: new(Players), presence: new(Presence), arrivals: new(Arrivals),
		handed: new(Handed), allowance: admission.NewAllowance(now, seed), holders: new(admission.Holders),
		places: session.NewPlaces(),
	}
}
