package bench

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// joinLoad is players who connect, leave, and come again as others.
type joinLoad struct {
	*traffic
	*crowd
	speaks codec.Protocol
	to     netip.AddrPort
	comer  uint64 // the next one's key
	err    error  // why nobody can come any more
}

// joinsInFlight is how many are connecting at once where there is no timetable.
const joinsInFlight = 64

func newJoinLoad(p codec.Protocol, to netip.AddrPort) (*joinLoad, error) {
	l := &joinLoad{traffic: newTraffic(joinsInFlight), speaks: p, to: to}
	l.patience = 2 * time.Second // a step of a handshake may wait for a timer
	var err error
	l.crowd, err = newCrowd(l.heed)
	return l, err
}

func (l *joinLoad) books() *traffic { return l.traffic }

// greet has nothing to do: everybody is new.
func (l *joinLoad) greet() error { return nil }

func (l *joinLoad) send(at time.Time) {
	e, err := l.come(l.speaks, l.to, l.comer)
	if err != nil {
		l.err = err
		return
	}
	l.comer++
	e.Value.number, e.Value.joined = l.leaves(at), at
}

func (l *joinLoad) heed(e *entry, ev *codec.Event) {
	if ev.Kind == codec.Connected {
		l.traffic.now = l.crowd.now
		l.returns(e.Value.number, e.Value.joined)
		e.Value.conn.Close(l.crowd.now, codec.Goodbye{Reason: codec.Closed})
	}
}

func (l *joinLoad) turn(until time.Time) error {
	err := l.crowd.turn(until)
	l.traffic.now = l.crowd.now
	if err == nil {
		err = l.err
	}
	if err == nil {
		err = l.interruption.err()
	}
	return err
}
