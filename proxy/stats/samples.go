package stats

import (
	"time"

	"tidegate/codec"
)

// SampleEvery is how often a session's figures are looked at, while it has anything to say.
const SampleEvery = 5 * time.Second

// Samples are figures of one side of all sessions. Each session is looked at every few seconds and at its end, so that
// no loop ever walks all sessions.
type Samples struct {
	RTT    Histogram // of sessions whose round trip is known
	Queued int       // bytes of messages to the side that wait to be sent or acknowledged
	Resent uint64    // transmissions of messages to the side beyond their first
	Lost   uint64    // messages or datagrams to the side known not to have arrived the first time
}

// Sampled is the part of one session's side in Samples. Of the counts it has the low bits: the next look is never so
// late that they wrap.
type Sampled struct{ queued, resent, lost uint32 }

// Observe adds the change of a connection's statistics since the last look.
func (s *Samples) Observe(last *Sampled, stats codec.Stats) {
	if stats.RTT > 0 {
		s.RTT.observe(stats.RTT)
	}
	s.take(last, Sampled{uint32(stats.Queued), uint32(stats.Resent), uint32(stats.Lost)})
}

// Leave adds the last statistics of a connection that is over.
func (s *Samples) Leave(last *Sampled, stats codec.Stats) {
	s.take(last, Sampled{0, uint32(stats.Resent), uint32(stats.Lost)})
}

func (s *Samples) take(last *Sampled, now Sampled) {
	s.Queued += int(now.queued) - int(last.queued)
	s.Resent += uint64(now.resent - last.resent)
	s.Lost += uint64(now.lost - last.lost)
	*last = now
}

// Add adds the samples of another Relay.
func (s *Samples) Add(o *Samples) {
	s.RTT.Add(&o.RTT)
	s.Queued += o.Queued
	s.Resent += o.Resent
	s.Lost += o.Lost
}
