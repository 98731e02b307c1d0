package codectest

import (
	"fmt"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

const (
	allocWarmUp = 2000 // steps until all buffers have their final size
	allocSteps  = 500
	allocTick   = 10 * time.Millisecond
)

// checkAllocs measures the steady path of a lossless session in each mode. A message each way, its acknowledgement and
// its receipt must not allocate.
func checkAllocs(t tb, c *Config) {
	for _, m := range c.modes {
		simulate(t, m.String(), func(r *report) {
			p := connectedPair(r, c, 1)
			if p == nil {
				return
			}
			s := newShuttle(p, m)
			for range allocWarmUp {
				s.step()
			}
			if n := allocs.PerRun(allocSteps, s.step); n > 0 {
				r.Errorf("%v allocations for a message each way", n)
			}
			if s.fault != "" || s.received < 2*allocSteps {
				r.Errorf("steady path broken: %s, %d messages received", s.fault, s.received)
			}
		})
	}
}

// shuttle carries datagrams between the Conns of a pair without a network, checks or allocation.
type shuttle struct {
	ends     [2]codec.Conn
	payloads [2][]byte // payload that each end sends
	now      time.Time
	message  codec.Message
	buffer   []byte
	received int
	fault    string
}

func newShuttle(p *pair, m codec.Mode) *shuttle {
	size := max(p.c.smallest(), 64)
	message := codec.Message{Mode: m}
	if p.c.IDs.Has(m) {
		message.HasID, message.ID = true, 7
	}
	p.net.Run(quiet) // let the handshake's last datagrams arrive
	return &shuttle{
		ends:     [2]codec.Conn{p.client.conn, p.server.conn},
		now:      p.net.Now(),
		payloads: [2][]byte{p.up.appendPayload(nil, 0, size, 0), p.down.appendPayload(nil, 0, size, 0)},
		message:  message,
		buffer:   make([]byte, 0, codec.MaxDatagram),
	}
}

// step advances the time by allocTick and sends one message each way.
func (s *shuttle) step() {
	s.now = s.now.Add(allocTick)
	s.message.Receipt++
	for i, conn := range s.ends {
		if due := conn.NextTimeout(); !due.IsZero() && !due.After(s.now) {
			conn.Advance(s.now)
			s.poll(conn)
		}
		s.message.Payload = s.payloads[i]
		if err := conn.Send(s.now, s.message); err != nil {
			s.fault = fmt.Sprintf("Send: %v", err)
		}
	}
	for s.carry(0) || s.carry(1) {
	}
}

// carry takes one datagram from one end to the other. It reports whether there was one.
func (s *shuttle) carry(from int) bool {
	datagram, ok := s.ends[from].Transmit(s.now, s.buffer)
	if !ok {
		return false
	}
	to := s.ends[1-from]
	if err := to.Receive(s.now, datagram); err != nil {
		s.fault = fmt.Sprintf("Receive: %v", err)
	}
	s.poll(to)
	return true
}

func (s *shuttle) poll(conn codec.Conn) {
	for {
		e, ok := conn.Poll()
		if !ok {
			return
		}
		switch e.Kind {
		case codec.Received:
			s.received++
		case codec.Disconnected:
			s.fault = fmt.Sprintf("Disconnected: %v", e.Reason)
		}
	}
}
