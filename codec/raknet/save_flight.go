package raknet

import "tidegate/codec/internal/saved"

// save leaves out stale references: they name nothing any more.
func (f *flight) save(place func(*outgoing) int) savedFlight {
	v := savedFlight{flightState: f.flightState, Free: f.free}
	for n := f.Base; n != f.next; n = n.Add(1) {
		d := f.at(n)
		v.Datagrams = append(v.Datagrams, savedDatagram{
			At: d.at, Size: d.size, State: d.state, Again: d.again, Parts: f.saveRefs(d.parts),
		})
		if d.unsure {
			v.Unsure = append(v.Unsure, n)
		}
	}
	for i := range f.parts {
		var one savedPart
		if p := &f.parts[i]; p.message != nil {
			one = savedPart{
				Message: place(p.message) + 1, Index: p.index, Reliable: p.reliable, ID: p.id,
				Resent: p.resent, Waiting: p.waiting,
			}
		}
		v.Slots = append(v.Slots, one)
	}
	v.Resend = f.saveRefs(f.resend[f.resentTo:])
	for _, n := range f.repeats {
		if !n.Before(f.Base) {
			v.Repeats = append(v.Repeats, n)
		}
	}
	return v
}

func (f *flight) saveRefs(refs []partRef) (list []partRef) {
	for _, r := range refs {
		if f.get(r) != nil {
			list = append(list, r)
		}
	}
	return list
}

// restore brings a fresh flight to a saved state, and counts each message's parts.
func (f *flight) restore(v *savedFlight, messages []*outgoing, where []messagePlace) error {
	switch {
	case len(v.Datagrams) > maxFlight:
		return saved.Fault("number of datagrams in flight", len(v.Datagrams))
	case v.Due.Sub(v.Base) < 0 || v.Due.Sub(v.Base) > len(v.Datagrams):
		return saved.Fault("oldest datagram that is due", v.Due)
	case len(v.Repeats) > maxFlight:
		return saved.Fault("number of repetitions", len(v.Repeats))
	}
	f.flightState, f.next = v.flightState, v.Base
	if err := f.restoreParts(v, messages, where); err != nil {
		return err
	}
	for i := range v.Datagrams {
		one := &v.Datagrams[i]
		d := f.open(one.At)
		refs, err := f.restoreRefs(d.parts, one.Parts)
		if err != nil || one.Size < 0 || one.State > settled || one.At < -maxSpan || one.At > maxSpan {
			return saved.Fault("datagram in flight", i)
		}
		d.parts = refs
		f.commit(int(one.Size))
		d.state, d.again = one.State, one.Again
	}
	for _, n := range v.Unsure {
		if n.Before(f.Base) || !n.Before(f.next) {
			return saved.Fault("number of an overdue datagram", n)
		}
		f.at(n).unsure = true
	}
	for _, n := range v.Repeats {
		if n.Before(f.Base) || !n.Before(f.next) {
			return saved.Fault("number of a repetition", n)
		}
		f.queueRepeat(n)
	}
	var err error
	f.resend, err = f.restoreRefs(f.resend[:0], v.Resend)
	return err
}

func (f *flight) restoreParts(v *savedFlight, messages []*outgoing, where []messagePlace) error {
	free := 0
	f.parts = f.parts[:0]
	for i := range v.Slots {
		one := &v.Slots[i]
		p := part{index: one.Index, reliable: one.Reliable, id: one.ID, resent: one.Resent, waiting: one.Waiting}
		switch {
		case one.Message < 0 || one.Message > len(messages):
			return saved.Fault("message of a part", one.Message)
		case one.Message == 0:
			p = part{}
			free++
		default:
			p.message = messages[one.Message-1]
			where[one.Message-1].parts++
			if p.index >= p.message.Sent {
				return saved.Fault("index of a part", p.index)
			}
			if p.message.Mode.IsReliable() {
				f.unacked++
			}
		}
		f.parts = append(f.parts, p)
	}
	f.free = f.free[:0]
	taken := make([]bool, len(f.parts))
	for _, slot := range v.Free {
		if int(slot) >= len(f.parts) || f.parts[slot].message != nil || taken[slot] {
			return saved.Fault("free place of a part", slot)
		}
		taken[slot] = true
		f.free = append(f.free, slot)
	}
	if len(f.free) != free {
		return saved.Fault("number of free places", len(f.free))
	}
	return nil
}

func (f *flight) restoreRefs(to []partRef, refs []partRef) ([]partRef, error) {
	for _, r := range refs {
		if int(r.Slot) >= len(f.parts) || f.get(r) == nil {
			return nil, saved.Fault("reference to a part", r.Slot)
		}
		to = append(to, r)
	}
	return to, nil
}
