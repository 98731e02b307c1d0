package enet

import (
	"math/bits"
	"time"

	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

// savedInbox has the early and the unfinished messages of all channels. Their memory is counted anew. Times since the
// connection's epoch are moments of the record.
type savedInbox struct {
	*inbox
	Channels []savedInChannel `cbor:"2,keyasint,omitempty"`
}

type savedInChannel struct {
	inChannel
	Ring  int     `cbor:"3,keyasint,omitempty"`  // places
	Early []rival `cbor:"4,keyasint,omitempty"`  // whole messages, or in assembly
	Lane  *lane   `cbor:"11,keyasint,omitempty"` // nil: none is open
}

// epoch turns times since the beginning of a connection into moments of a record, and back.
type epoch struct{ now, start time.Time }

func (e epoch) moment(d time.Duration) time.Duration {
	return time.Duration(record.MomentOf(e.now, e.start.Add(d)))
}

func (e epoch) recall(d *time.Duration) {
	if m := record.Moment(*d); m != 0 {
		*d = m.Time(e.now).Sub(e.start)
	}
}

func (in *inbox) save(e epoch) savedInbox {
	v := savedInbox{inbox: in}
	for i := range in.channels {
		v.Channels = append(v.Channels, in.channels[i].save(e))
	}
	return v
}

func (c *inChannel) save(e epoch) savedInChannel {
	v := savedInChannel{inChannel: *c, Ring: len(c.early)}
	v.stillAt, v.rivals, v.unfinished = e.moment(c.stillAt), nil, nil
	if v.lane.isOpen {
		v.lane.since = e.moment(c.lane.since)
		v.Lane = &v.lane
	}
	for i := range len(c.early) {
		number := c.reliable + 1 + uint16(i)
		if s := &c.early[int(number)&(len(c.early)-1)]; s.whole || s.assembly != nil {
			v.Early = append(v.Early, rival{number, s.payload, s.assembly.save(e)})
		}
	}
	for _, r := range c.rivals {
		v.rivals = append(v.rivals, rival{r.number, r.payload, r.assembly.save(e)})
	}
	for _, a := range c.unfinished {
		v.unfinished = append(v.unfinished, a.save(e))
	}
	return v
}

func (a *assembly) save(e epoch) *assembly {
	if a == nil {
		return nil
	}
	v := *a
	v.fedAt = e.moment(a.fedAt)
	return &v
}

// restore brings a fresh inbox to a saved state.
func (in *inbox) restore(e epoch, v *savedInbox) error {
	if len(v.Channels) > maxChannels {
		return saved.Fault("number of channels", len(v.Channels))
	}
	in.channels = make([]inChannel, len(v.Channels))
	for i := range v.Channels {
		if err := in.restoreChannel(e, &in.channels[i], &v.Channels[i]); err != nil {
			return err
		}
	}
	switch {
	case in.held > maxHeld || in.heldNext > in.nextRoom():
		return saved.Fault("number of held bytes", in.held)
	case in.waiting > maxWaiting:
		return saved.Fault("number of waiting messages", in.waiting)
	}
	return nil
}

func (in *inbox) restoreChannel(e epoch, c *inChannel, v *savedInChannel) error {
	if v.Ring < 0 || v.Ring > maxAhead || v.Ring&(v.Ring-1) != 0 || v.Ring > 0 && v.Ring < leastEarly ||
		len(v.unfinished) > maxUnfinished {
		return saved.Fault("places for early messages", v.Ring)
	}
	*c = v.inChannel
	c.early = make([]earlyMessage, v.Ring)
	e.recall(&c.stillAt)
	if l := v.Lane; l != nil {
		c.lane = *l
		e.recall(&c.lane.since)
		c.lane.isOpen, c.lane.behind = true, max(0, l.behind)
	}
	in.held += ringCost(v.Ring)
	for i := range v.Early {
		if err := in.restoreEarly(e, c, &v.Early[i]); err != nil {
			return err
		}
	}
	if len(c.rivals) > maxRivals || len(c.recent) != 0 && len(c.recent) != mostRecent {
		return saved.Fault("number of rivals", len(c.rivals))
	}
	if len(c.recent) == 0 {
		c.recent = nil
	}
	for i := range c.rivals {
		if err := in.restoreHeld(e, &c.rivals[i]); err != nil {
			return err
		}
	}
	for _, m := range c.waiting {
		in.waiting++
		in.held += len(m.Payload)
	}
	for _, a := range c.unfinished {
		if err := a.restore(e, maxUnreliable); err != nil {
			return err
		}
		in.held += a.size()
	}
	return nil
}

// restoreHeld counts a message, or what has come of it.
func (in *inbox) restoreHeld(e epoch, v *rival) error {
	if v.assembly == nil {
		in.held += len(v.payload)
		return nil
	}
	if err := v.assembly.restore(e, in.largest); err != nil {
		return err
	}
	v.payload = nil
	in.count(v.assembly)
	return nil
}

func (in *inbox) restoreEarly(e epoch, c *inChannel, v *rival) error {
	ahead := int(v.number - c.reliable)
	if ahead < 1 || ahead > len(c.early) {
		return saved.Fault("number of an early message", v.number)
	}
	s := &c.early[int(v.number)&(len(c.early)-1)]
	if s.whole || s.assembly != nil {
		return saved.Fault("number of an early message", v.number)
	}
	c.earlyCount++
	in.early++
	err := in.restoreHeld(e, v)
	*s = earlyMessage{payload: v.payload, whole: v.assembly == nil, assembly: v.assembly}
	return err
}

func (a *assembly) restore(e epoch, largest int) error {
	if a == nil {
		return saved.Fault("unfinished message", "missing")
	}
	a.left = a.Count
	e.recall(&a.fedAt)
	unit, size := uint64(a.Unit), uint64(len(a.Payload))
	if unit > 0 && (uint64(a.Count)*unit < size || (uint64(a.Count)-1)*unit >= size) {
		return saved.Fault("size of a fragment", a.Unit)
	}
	if a.Count > maxParts || len(a.Payload) > largest || len(a.Has) != int(a.Count+63)/64 {
		return saved.Fault("number of fragments", a.Count)
	}
	for _, word := range a.Has {
		a.left -= uint32(bits.OnesCount64(word))
	}
	if tail := a.Count % 64; a.left > a.Count || tail > 0 && a.Has[len(a.Has)-1]>>tail != 0 {
		return saved.Fault("number of missing fragments", a.left)
	}
	return nil
}
