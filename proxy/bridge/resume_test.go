package bridge

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// picky is a connection that does not take every message.
type picky struct {
	codec.Conn
	sent []byte
}

func (p *picky) Send(_ time.Time, m codec.Message) error {
	if m.Payload[0] == 1 {
		return codec.ErrKiller
	}
	p.sent = append(p.sent, m.Payload[0])
	return nil
}

// TestResumeGoesOn: a kept message that the next server does not take is lost, and those behind it are sent.
func TestResumeGoesOn(t *testing.T) {
	var counters stats.Counters
	c, to := Carrier{counters: &counters}, &picky{}
	s := &Sender{Conn: to, Keeps: true}
	for i := range byte(3) {
		m := codec.Message{Mode: codec.Reliable, Payload: []byte{i}}
		s.kept.keep(&m, careHold, true, 1000)
	}
	c.Resume(time.Time{}, s, &Direction{})
	if string(to.sent) != "\x00\x02" || counters.Lost != 1 || !c.HasFailed() || c.Failure().Why != stats.DropKiller {
		t.Errorf("sent %v, %d lost", to.sent, counters.Lost)
	}
}
