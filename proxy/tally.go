package proxy

import "tidegate/codec"

// Tally is what became of one listener's clients of one protocol. It only grows.
type Tally struct {
	Listener, Protocol string // the protocol is the clients'
	Opened             uint64 // sessions asked for
	Established        uint64 // sessions both of whose sides were connected
	Ended              [blameCount][codec.ReasonCount]uint64
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

// end counts the end of a session.
func (t *Tally) end(blame Party, why codec.Reason, established bool) {
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
		t.FromClients[mode].join(o.FromClients[mode])
		t.FromUpstreams[mode].join(o.FromUpstreams[mode])
	}
}

// DropTally is what was dropped of one listener's traffic, and of that of its sessions' upstreams. It only grows.
type DropTally struct {
	Listener string
	Drops    [dropCount]uint64 // by Drop
}

// tallies are those of a Relay, one for each listener and protocol it ever had: a reload that takes a listener away does
// not make totals smaller.
type tallies struct {
	sessions []*Tally
	drops    []*DropTally
}

// of returns the tally of a listener and protocol, a new one if need be.
func (t *tallies) of(listener, protocol string) *Tally {
	for _, one := range t.sessions {
		if one.Listener == listener && one.Protocol == protocol {
			return one
		}
	}
	one := &Tally{Listener: listener, Protocol: protocol}
	t.sessions = append(t.sessions, one)
	return one
}

// dropsOf returns the tally of a listener's drops, a new one if need be.
func (t *tallies) dropsOf(listener string) *DropTally {
	for _, one := range t.drops {
		if one.Listener == listener {
			return one
		}
	}
	one := &DropTally{Listener: listener}
	t.drops = append(t.drops, one)
	return one
}

// clone copies all of it, without looking for names: it is done in a loop's time.
func (t *tallies) clone() tallies {
	sessions, drops := make([]Tally, len(t.sessions)), make([]DropTally, len(t.drops))
	var c tallies
	for i, one := range t.sessions {
		sessions[i] = *one
		c.sessions = append(c.sessions, &sessions[i])
	}
	for i, one := range t.drops {
		drops[i] = *one
		c.drops = append(c.drops, &drops[i])
	}
	return c
}

// add adds those of another Relay.
func (t *tallies) add(o *tallies) {
	for _, one := range o.sessions {
		t.of(one.Listener, one.Protocol).add(one)
	}
	for _, one := range o.drops {
		to := t.dropsOf(one.Listener)
		for why, n := range one.Drops {
			to.Drops[why] += n
		}
	}
}
