package stats

import (
	"time"

	"tidegate/codec"
)

// SampleEvery is the interval between two samples of an active session's figures.
const SampleEvery = 5 * time.Second

// Samples are figures of one side of all sessions. A Relay samples each session every few seconds and at its end. So
// a loop never walks all its sessions.
type Samples struct {
	RTT    Histogram // round trips of sessions with a known one
	Queued int       // bytes of messages to the side that wait to be sent or acknowledged
	Resent uint64    // transmissions of messages to the side after their first
	Lost   uint64    // messages or datagrams to the side whose first transmission is known to be lost
}

// Sampled is one session's share of Samples, for one side. It holds the low bits of the counts. The next sample comes
// before these bits can wrap.
type Sampled struct{ queued, resent, lost uint32 }

// Observe adds the change of a connection's statistics since the last sample.
func (s *Samples) Observe(last *Sampled, stats codec.Stats) {
	if stats.RTT > 0 {
		s.RTT.observe(stats.RTT)
	}
	s.take(last, Sampled{uint32(stats.Queued), uint32(stats.Resent), uint32(stats.Lost)})
}

// Leave adds the last statistics of an ended connection.
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
