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
}

type savedInChannel struct {
	Reliable   uint16            `cbor:"1,keyasint"`
	Unreliable uint16            `cbor:"2,keyasint,omitempty"`
	Ring       int               `cbor:"3,keyasint,omitempty"` // places
	Early      []savedEarly      `cbor:"4,keyasint,omitempty"`
	Waiting    []savedUnreliable `cbor:"5,keyasint,omitempty"`
	Unfinished []savedAssembly   `cbor:"6,keyasint,omitempty"`
	Still      record.Moment     `cbor:"7,keyasint,omitempty"`
	Rivals     []savedEarly      `cbor:"8,keyasint,omitempty"`
	Recent     []uint32          `cbor:"9,keyasint,omitempty"`
}

// savedEarly is a whole message, or one in assembly.
type savedEarly struct {
	Number   uint16         `cbor:"1,keyasint"`
	Payload  []byte         `cbor:"2,keyasint,omitempty"`
	Assembly *savedAssembly `cbor:"3,keyasint,omitempty"`
}

type savedUnreliable struct {
	_                struct{} `cbor:",toarray"`
	Reliable, Number uint16
	Payload          []byte
}

type savedAssembly struct {
	Payload  []byte   `cbor:"1,keyasint"`
	Has      []uint64 `cbor:"2,keyasint"`
	Count    uint32   `cbor:"3,keyasint"`
	Reliable uint16   `cbor:"4,keyasint,omitempty"`
	Start    uint16   `cbor:"5,keyasint,omitempty"`
	IsNext   bool     `cbor:"6,keyasint,omitempty"`
}

// save needs the connection's epoch, since the inbox knows times since then.
func (in *inbox) save(now, epoch time.Time) savedInbox {
	v := savedInbox{Base: in.base}
	for i := range in.channels {
		one := in.channels[i].save()
		one.Still = record.MomentOf(now, epoch.Add(in.channels[i].stillAt))
		v.Channels = append(v.Channels, one)
	}
	return v
}

func (c *inChannel) save() savedInChannel {
	v := savedInChannel{Reliable: c.reliable, Unreliable: c.unreliable, Ring: len(c.early), Recent: c.recent}
	for i := range len(c.early) {
		number := c.reliable + 1 + uint16(i)
		switch s := &c.early[int(number)&(len(c.early)-1)]; {
		case s.whole:
			v.Early = append(v.Early, savedEarly{Number: number, Payload: s.payload})
		case s.assembly != nil:
			a := s.assembly.save()
			v.Early = append(v.Early, savedEarly{Number: number, Assembly: &a})
		}
	}
	for _, r := range c.rivals {
		v.Rivals = append(v.Rivals, savedEarly{Number: r.number, Payload: r.payload})
	}
	for _, m := range c.waiting {
		v.Waiting = append(v.Waiting, savedUnreliable{Reliable: m.reliable, Number: m.number, Payload: m.payload})
	}
	for _, a := range c.unfinished {
		v.Unfinished = append(v.Unfinished, a.save())
	}
	return v
}

func (a *assembly) save() savedAssembly {
	return savedAssembly{
		Payload: a.payload, Has: a.has, Count: a.count, Reliable: a.reliable, Start: a.start, IsNext: a.isNext,
	}
}

// restore brings a fresh inbox to a saved state.
func (in *inbox) restore(now, epoch time.Time, v *savedInbox) error {
	if len(v.Channels) > maxChannels {
		return saved.Fault("number of channels", len(v.Channels))
	}
	in.base = v.Base
	in.channels = make([]inChannel, len(v.Channels))
	for i := range v.Channels {
		if err := in.restoreChannel(&in.channels[i], &v.Channels[i]); err != nil {
			return err
		}
		if still := v.Channels[i].Still.Time(now); !still.IsZero() {
			in.channels[i].stillAt = still.Sub(epoch)
		}
	}
	switch {
	case in.held > maxHeld || in.heldNext > 2*in.largest:
		return saved.Fault("number of held bytes", in.held)
	case in.waiting > maxWaiting:
		return saved.Fault("number of waiting messages", in.waiting)
	}
	return nil
}

func (in *inbox) restoreChannel(c *inChannel, v *savedInChannel) error {
	if v.Ring < 0 || v.Ring > maxAhead || v.Ring&(v.Ring-1) != 0 || v.Ring > 0 && v.Ring < leastEarly ||
		len(v.Unfinished) > maxUnfinished {
		return saved.Fault("places for early messages", v.Ring)
	}
	*c = inChannel{reliable: v.Reliable, unreliable: v.Unreliable, early: make([]earlyMessage, v.Ring)}
	in.held += ringCost(v.Ring)
	for i := range v.Early {
		if err := in.restoreEarly(c, &v.Early[i]); err != nil {
			return err
		}
	}
	if len(v.Rivals) > maxRivals || len(v.Recent) != 0 && len(v.Recent) != mostRecent {
		return saved.Fault("number of rivals", len(v.Rivals))
	}
	c.recent = v.Recent
	for _, r := range v.Rivals {
		c.rivals = append(c.rivals, rival{r.Number, r.Payload})
		in.held += len(r.Payload)
	}
	for _, m := range v.Waiting {
		c.waiting = append(c.waiting, unreliableMessage{m.Reliable, m.Number, m.Payload})
		in.waiting++
		in.held += len(m.Payload)
	}
	for i := range v.Unfinished {
		a, err := v.Unfinished[i].restore(maxUnreliable)
		if err != nil {
			return err
		}
		c.unfinished = append(c.unfinished, a)
		in.held += a.size()
	}
	return nil
}

func (in *inbox) restoreEarly(c *inChannel, v *savedEarly) error {
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
	a, err := v.Assembly.restore(in.largest)
	switch {
	case err != nil:
		return err
	case a.isNext:
		in.heldNext += a.size()
	default:
		in.held += a.size()
	}
	s.assembly = a
	return nil
}

func (v *savedAssembly) restore(largest int) (*assembly, error) {
	a := &assembly{
		payload: v.Payload, has: v.Has, count: v.Count, left: v.Count,
		reliable: v.Reliable, start: v.Start, isNext: v.IsNext,
	}
	if v.Count > maxFlight || len(v.Payload) > largest || len(v.Has) != int(v.Count+63)/64 {
		return nil, saved.Fault("number of fragments", v.Count)
	}
	for _, word := range v.Has {
		a.left -= uint32(bits.OnesCount64(word))
	}
	if tail := v.Count % 64; a.left > v.Count || tail > 0 && v.Has[len(v.Has)-1]>>tail != 0 {
		return nil, saved.Fault("number of missing fragments", a.left)
	}
	return a, nil
}
