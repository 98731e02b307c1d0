package stats

import "tidegate/codec"

// Party is the one that ended a session.
type Party uint8

// Parties.
const (
	ByClient Party = iota
	ByUpstream
	ByProxy
	Parties
)

var partyNames = [Parties]string{"client", "upstream", "proxy"}

// String is the party's name as in logs and metrics.
func (p Party) String() string { return partyNames[p] }

// Tally is what became of one listener's clients of one protocol. It only grows.
type Tally struct {
	Listener, Protocol string // the protocol is the clients'
	Opened             uint64 // sessions asked for
	Established        uint64 // sessions both of whose sides were connected
	Ended              [Parties][codec.ReasonCount]uint64
	Unestablished      uint64                   // of those ended: never established
	FromClients        [codec.ModeCount]Traffic // by the mode in which clients sent
	FromUpstreams      [codec.ModeCount]Traffic // by the mode in which servers sent
}

// Open is how many sessions there are.
func (t *Tally) Open() uint64 { return t.Opened - t.ended() }

// HalfOpen is how many of the open sessions are not established.
func (t *Tally) HalfOpen() uint64 { return t.Opened - t.Established - t.Unestablished }

func (t *Tally) ended() (n uint64) {
	for by := range t.Ended {
		for _, count := range t.Ended[by] {
			n += count
		}
	}
	return n
}

// End counts the end of a session.
func (t *Tally) End(blame Party, why codec.Reason, established bool) {
	t.Ended[blame][why]++
	if !established {
		t.Unestablished++
	}
}

func (t *Tally) add(o *Tally) {
	t.Opened += o.Opened
	t.Established += o.Established
	t.Unestablished += o.Unestablished
	for by := range o.Ended {
		for reason, n := range o.Ended[by] {
			t.Ended[by][reason] += n
		}
	}
	for mode := range o.FromClients {
		t.FromClients[mode].Join(o.FromClients[mode])
		t.FromUpstreams[mode].Join(o.FromUpstreams[mode])
	}
}

// DropTally is what was dropped of one listener's traffic, and of that of its sessions' upstreams. It only grows.
type DropTally struct {
	Listener string
	Drops    [DropCount]uint64 // by Drop
}

// Tallies are those of a Relay, one for each listener and protocol it ever had: a reload that takes a listener away
// does not make totals smaller.
type Tallies struct {
	Sessions []*Tally
	Drops    []*DropTally
}

// Of returns the tally of a listener and protocol, a new one if need be.
func (t *Tallies) Of(listener, protocol string) *Tally {
	for _, one := range t.Sessions {
		if one.Listener == listener && one.Protocol == protocol {
			return one
		}
	}
	one := &Tally{Listener: listener, Protocol: protocol}
	t.Sessions = append(t.Sessions, one)
	return one
}

// DropsOf returns the tally of a listener's drops, a new one if need be.
func (t *Tallies) DropsOf(listener string) *DropTally {
	for _, one := range t.Drops {
		if one.Listener == listener {
			return one
		}
	}
	one := &DropTally{Listener: listener}
	t.Drops = append(t.Drops, one)
	return one
}

// Clone copies all of it, without looking for names: it is done in a loop's time.
func (t *Tallies) Clone() Tallies {
	sessions, drops := make([]Tally, len(t.Sessions)), make([]DropTally, len(t.Drops))
	var c Tallies
	for i, one := range t.Sessions {
		sessions[i] = *one
		c.Sessions = append(c.Sessions, &sessions[i])
	}
	for i, one := range t.Drops {
		drops[i] = *one
		c.Drops = append(c.Drops, &drops[i])
	}
	return c
}

// Add adds those of another Relay.
func (t *Tallies) Add(o *Tallies) {
	for _, one := range o.Sessions {
		t.Of(one.Listener, one.Protocol).add(one)
	}
	for _, one := range o.Drops {
		to := t.DropsOf(one.Listener)
		for why, n := range one.Drops {
			to.Drops[why] += n
		}
	}
}
