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
	Leg
	Queued int   // bytes of messages to the side that wait to be sent or acknowledged
	Queues Sizes // of each sample: bytes that wait
}

// Sampled is one session's share of Samples, for one side. It holds the low bits of the counts. The next sample comes
// before these bits can wrap.
type Sampled struct {
	Queued uint32 `cbor:"1,keyasint,omitempty"`
	Resent uint32 `cbor:"2,keyasint,omitempty"`
	Lost   uint32 `cbor:"3,keyasint,omitempty"`
}

// Observe adds the change of a connection's statistics since the last sample, also to the leg of its server. A nil
// leg means that the session has no server.
func (s *Samples) Observe(last *Sampled, stats codec.Stats, of *Leg) {
	if stats.RTT > 0 {
		s.RTT.observe(stats.RTT)
		if of != nil {
			of.RTT.observe(stats.RTT)
		}
	}
	s.Queues.observe(stats.Queued)
	s.take(last, of, Sampled{uint32(stats.Queued), uint32(stats.Resent), uint32(stats.Lost)})
}

// Leave adds the last statistics of an ended connection, as Observe does.
func (s *Samples) Leave(last *Sampled, stats codec.Stats, of *Leg) {
	s.take(last, of, Sampled{0, uint32(stats.Resent), uint32(stats.Lost)})
}

func (s *Samples) take(last *Sampled, of *Leg, now Sampled) {
	s.Queued += int(now.Queued) - int(last.Queued)
	resent, lost := uint64(now.Resent-last.Resent), uint64(now.Lost-last.Lost)
	s.Resent += resent
	s.Lost += lost
	if of != nil {
		of.Resent += resent
		of.Lost += lost
	}
	*last = now
}

// Add adds the samples of another Relay.
func (s *Samples) Add(o *Samples) {
	s.add(&o.Leg)
	s.Queued += o.Queued
	s.Queues.Add(&o.Queues)
}
