package enet

import (
	"math/bits"
	"time"

	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

// savedInbox has the early and the unfinished messages of all channels. Their memory is counted anew.
type savedInbox struct {
	Base     uint16           `cbor:"1,keyasint,omitempty"`
	Channels []savedInChannel `cbor:"2,keyasint,omitempty"`
	Full     bool             `cbor:"3,keyasint,omitempty"`
}

type savedInChannel struct {
	Reliable   uint16              `cbor:"1,keyasint"`
	Unreliable uint16              `cbor:"2,keyasint,omitempty"`
	Ring       int                 `cbor:"3,keyasint,omitempty"` // places
	Early      []savedEarly        `cbor:"4,keyasint,omitempty"`
	Waiting    []unreliableMessage `cbor:"5,keyasint,omitempty"`
	Unfinished []savedAssembly     `cbor:"6,keyasint,omitempty"`
	Still      record.Moment       `cbor:"7,keyasint,omitempty"`
	Rivals     []savedEarly        `cbor:"8,keyasint,omitempty"`
	Recent     []uint32            `cbor:"9,keyasint,omitempty"`
	Far        uint16              `cbor:"10,keyasint,omitempty"`
	Lane       *savedLane          `cbor:"11,keyasint,omitempty"` // nil: none is open
}

type savedLane struct {
	_                struct{} `cbor:",toarray"`
	Reliable, Number uint16
	Since            record.Moment
	Behind           int
}

// savedEarly is a whole message, or one in assembly.
type savedEarly struct {
	Number   uint16         `cbor:"1,keyasint"`
	Payload  []byte         `cbor:"2,keyasint,omitempty"`
	Assembly *savedAssembly `cbor:"3,keyasint,omitempty"`
}

type savedAssembly struct {
	assembly
	Fed record.Moment `cbor:"8,keyasint,omitempty"`
}

// save needs the connection's epoch, since the inbox knows times since then.
func (in *inbox) save(now, epoch time.Time) savedInbox {
	v := savedInbox{Base: in.base, Full: in.full}
	for i := range in.channels {
		one := in.channels[i].save(now, epoch)
		one.Still = record.MomentOf(now, epoch.Add(in.channels[i].stillAt))
		v.Channels = append(v.Channels, one)
	}
	return v
}

func (c *inChannel) save(now, epoch time.Time) savedInChannel {
	v := savedInChannel{
		Reliable: c.reliable, Unreliable: c.unreliable, Ring: len(c.early), Recent: c.recent, Far: c.far,
		Waiting: c.waiting,
	}
	if l := &c.lane; l.isOpen {
		since := record.MomentOf(now, epoch.Add(l.since))
		v.Lane = &savedLane{Reliable: l.reliable, Number: l.number, Since: since, Behind: l.behind}
	}
	for i := range len(c.early) {
		number := c.reliable + 1 + uint16(i)
		switch s := &c.early[int(number)&(len(c.early)-1)]; {
		case s.whole:
			v.Early = append(v.Early, savedEarly{Number: number, Payload: s.payload})
		case s.assembly != nil:
			v.Early = append(v.Early, savedEarly{Number: number, Assembly: s.assembly.save(now, epoch)})
		}
	}
	for _, r := range c.rivals {
		one := savedEarly{Number: r.number, Payload: r.payload}
		if r.assembly != nil {
			one.Assembly = r.assembly.save(now, epoch)
		}
		v.Rivals = append(v.Rivals, one)
	}
	for _, a := range c.unfinished {
		v.Unfinished = append(v.Unfinished, *a.save(now, epoch))
	}
	return v
}

func (a *assembly) save(now, epoch time.Time) *savedAssembly {
	return &savedAssembly{*a, record.MomentOf(now, epoch.Add(a.fedAt))}
}

// restore brings a fresh inbox to a saved state.
func (in *inbox) restore(now, epoch time.Time, v *savedInbox) error {
	if len(v.Channels) > maxChannels {
		return saved.Fault("number of channels", len(v.Channels))
	}
	in.base, in.full = v.Base, v.Full
	in.channels = make([]inChannel, len(v.Channels))
	for i := range v.Channels {
		if err := in.restoreChannel(now, epoch, &in.channels[i], &v.Channels[i]); err != nil {
			return err
		}
		if still := v.Channels[i].Still.Time(now); !still.IsZero() {
			in.channels[i].stillAt = still.Sub(epoch)
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

func (in *inbox) restoreChannel(now, epoch time.Time, c *inChannel, v *savedInChannel) error {
	if v.Ring < 0 || v.Ring > maxAhead || v.Ring&(v.Ring-1) != 0 || v.Ring > 0 && v.Ring < leastEarly ||
		len(v.Unfinished) > maxUnfinished {
		return saved.Fault("places for early messages", v.Ring)
	}
	*c = inChannel{reliable: v.Reliable, unreliable: v.Unreliable, early: make([]earlyMessage, v.Ring), far: v.Far}
	if l := v.Lane; l != nil {
		since := l.Since.Time(now).Sub(epoch)
		c.lane = lane{isOpen: true, reliable: l.Reliable, number: l.Number, since: since, behind: max(0, l.Behind)}
	}
	in.held += ringCost(v.Ring)
	for i := range v.Early {
		if err := in.restoreEarly(now, epoch, c, &v.Early[i]); err != nil {
			return err
		}
	}
	if len(v.Rivals) > maxRivals || len(v.Recent) != 0 && len(v.Recent) != mostRecent {
		return saved.Fault("number of rivals", len(v.Rivals))
	}
	if len(v.Recent) > 0 {
		c.recent = v.Recent
	}
	for i := range v.Rivals {
		if err := in.restoreRival(now, epoch, c, &v.Rivals[i]); err != nil {
			return err
		}
	}
	c.waiting = v.Waiting
	for _, m := range v.Waiting {
		in.waiting++
		in.held += len(m.Payload)
	}
	for i := range v.Unfinished {
		a, err := v.Unfinished[i].restore(now, epoch, maxUnreliable)
		if err != nil {
			return err
		}
		c.unfinished = append(c.unfinished, a)
		in.held += a.size()
	}
	return nil
}

func (in *inbox) restoreRival(now, epoch time.Time, c *inChannel, v *savedEarly) error {
	r := rival{number: v.Number, payload: v.Payload}
	if v.Assembly == nil {
		in.held += len(v.Payload)
	} else {
		a, err := v.Assembly.restore(now, epoch, in.largest)
		if err != nil {
			return err
		}
		r.assembly = a
		in.count(a)
	}
	c.rivals = append(c.rivals, r)
	return nil
}

func (in *inbox) restoreEarly(now, epoch time.Time, c *inChannel, v *savedEarly) error {
	ahead := int(v.Number - c.reliable)
	if ahead < 1 || ahead > len(c.early) {
		return saved.Fault("number of an early message", v.Number)
	}
	s := &c.early[int(v.Number)&(len(c.early)-1)]
	if s.whole || s.assembly != nil {
		return saved.Fault("number of an early message", v.Number)
	}
	c.earlyCount++
	in.early++
	if v.Assembly == nil {
		*s = earlyMessage{payload: v.Payload, whole: true}
		in.held += len(v.Payload)
		return nil
	}
	a, err := v.Assembly.restore(now, epoch, in.largest)
	if err != nil {
		return err
	}
	s.assembly = a
	in.count(a)
	return nil
}

func (v *savedAssembly) restore(now, epoch time.Time, largest int) (*assembly, error) {
	a := v.assembly
	a.left = v.Count
	if fed := v.Fed.Time(now); !fed.IsZero() {
		a.fedAt = fed.Sub(epoch)
	}
	unit, size := uint64(v.Unit), uint64(len(v.Payload))
	if unit > 0 && (uint64(v.Count)*unit < size || (uint64(v.Count)-1)*unit >= size) {
		return nil, saved.Fault("size of a fragment", v.Unit)
	}
	if v.Count > maxParts || len(v.Payload) > largest || len(v.Has) != int(v.Count+63)/64 {
		return nil, saved.Fault("number of fragments", v.Count)
	}
	for _, word := range v.Has {
		a.left -= uint32(bits.OnesCount64(word))
	}
	if tail := v.Count % 64; a.left > v.Count || tail > 0 && v.Has[len(v.Has)-1]>>tail != 0 {
		return nil, saved.Fault("number of missing fragments", a.left)
	}
	return &a, nil
}
