package decode

import "github.com/gopacket/gopacket/layers"

// tcpSeq numbers the bytes of one direction of a TCP connection. It wraps; compare only with minus.
type tcpSeq uint32

// minus is how far s is ahead of t, negative when it is behind.
func (s tcpSeq) minus(t tcpSeq) int { return int(int32(s - t)) }

// streams knows, for each direction of at most 2*maxFlows TCP connections, which byte comes next.
type streams map[string]tcpSeq

// order gives r the bytes of a segment that were not there before. Bytes that are missing stay missing: segments are
// expected in order, as they are where a capture was made at one of the ends.
func (k streams) order(r *record, segment *layers.TCP) {
	way := r.from + " " + r.to
	at := tcpSeq(segment.Seq)
	next, known := k[way]
	if segment.SYN || !known {
		next = at
		if segment.SYN {
			at++
			next++
		}
	}
	data := segment.Payload
	switch ahead := at.minus(next); {
	case ahead > 0:
		r.missing = true
	case -ahead >= len(data):
		data = nil
	default:
		data = data[-ahead:]
	}
	r.data = data
	switch {
	case segment.SYN:
		r.note = "opened"
	case segment.RST:
		r.note = "reset"
	case segment.FIN:
		r.note = "closed"
	case len(data) == 0:
		r.ignored = true
	}
	if known || len(k) < 2*maxFlows {
		k[way] = next + tcpSeq(max(0, at.minus(next)+len(segment.Payload)))
	}
}
