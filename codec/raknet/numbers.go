package raknet

// maxAhead is how many reliable numbers the newest message may be ahead of the oldest one that the peer lacks.
// go-raknet takes more than 2,048 ordered messages behind a missing one for an attack, and blocks our address. RakLib
// acknowledges such messages and drops them.
const maxAhead = 2000

// numbersLeft returns how many new reliable messages fit behind the oldest one that the peer lacks.
func (f *flight) numbersLeft() int {
	room := maxAhead
	if f.literal {
		room = literalRoom
	}
	if f.unacked == 0 {
		return room
	}
	if f.oldestGone {
		f.findOldest()
	}
	return max(0, room-f.reliable.Sub(f.oldest))
}

// numbered records that a reliable number is about to be assigned.
func (f *flight) numbered(n Seq24) {
	if f.unacked == 0 {
		f.oldest, f.oldestGone = n, false
	}
}

// findOldest finds the oldest unacknowledged reliable number. There must be one.
func (f *flight) findOldest() {
	f.oldest, f.oldestGone = f.reliable, false
	for i := range f.parts {
		if p := &f.parts[i]; p.message != nil && p.message.mode.IsReliable() && p.reliable.Before(f.oldest) {
			f.oldest = p.reliable
		}
	}
}
