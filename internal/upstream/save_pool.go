package upstream

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/record"
)

// SavedPool is the health of a Pool's servers as plain data. Sessions are not part of it.
type SavedPool struct {
	Upstream string        `cbor:"1,keyasint"`
	Turn     int           `cbor:"2,keyasint,omitempty"`
	Servers  []savedServer `cbor:"3,keyasint,omitempty"`
}

type savedServer struct {
	Addr      netip.AddrPort `cbor:"1,keyasint"`
	Heard     record.Moment  `cbor:"2,keyasint,omitempty"`
	Credit    int            `cbor:"3,keyasint,omitempty"`
	Drained   record.Moment  `cbor:"4,keyasint,omitempty"`
	Down      record.Moment  `cbor:"5,keyasint,omitempty"`
	Failed    record.Moment  `cbor:"6,keyasint,omitempty"`
	RestUntil record.Moment  `cbor:"7,keyasint,omitempty"`
	Failures  int            `cbor:"8,keyasint,omitempty"`
	Excused   int            `cbor:"9,keyasint,omitempty"`
	Cause     string         `cbor:"10,keyasint,omitempty"`
	AskAt     record.Moment  `cbor:"11,keyasint,omitempty"`
	Streak    int            `cbor:"12,keyasint,omitempty"`
	Checked   record.Moment  `cbor:"13,keyasint,omitempty"`
	RTT       time.Duration  `cbor:"14,keyasint,omitempty"`
	Up        record.Moment  `cbor:"15,keyasint,omitempty"`
	Passed    bool           `cbor:"16,keyasint,omitempty"`
	Missed    record.Moment  `cbor:"17,keyasint,omitempty"`
	Last      record.Moment  `cbor:"18,keyasint,omitempty"`
	Turned    int            `cbor:"19,keyasint,omitempty"`
	Since     record.Moment  `cbor:"20,keyasint,omitempty"`
	Told      State          `cbor:"21,keyasint,omitempty"`
}

// Save returns the health of all servers of all Pools as plain data.
func (p *Pools) Save(now time.Time) (all []SavedPool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, pool := range p.byName {
		all = append(all, pool.save(name, now))
	}
	return all
}

func (p *Pool) save(name string, now time.Time) SavedPool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := SavedPool{Upstream: name, Turn: p.turn}
	for _, s := range p.servers {
		one := savedServer{
			Addr: s.Addr, Credit: s.credit, Drained: record.MomentOf(now, s.drainedAt), Down: record.MomentOf(now, s.downAt),
			Failed: record.MomentOf(now, s.failedAt), RestUntil: record.MomentOf(now, s.restUntil), Failures: s.failures,
			Excused: s.excused, Cause: s.cause, AskAt: record.MomentOf(now, s.askAt), Streak: s.streak,
			Checked: record.MomentOf(now, s.checkedAt), RTT: s.rtt, Up: record.MomentOf(now, s.upAt), Passed: s.passed,
			Missed: record.MomentOf(now, s.trouble.at), Last: record.MomentOf(now, s.trouble.last), Turned: s.trouble.turned,
			Since: record.MomentOf(now, s.trouble.since), Told: s.trouble.told,
		}
		if at := s.heard.Load(); at != 0 {
			one.Heard = record.MomentOf(now, origin.Add(time.Duration(at)))
		}
		v.Servers = append(v.Servers, one)
	}
	return v
}

// Restore sets the health of the servers that another process had too.
func (p *Pools) Restore(now time.Time, saved []SavedPool) {
	for i := range saved {
		p.Get(saved[i].Upstream).restore(now, &saved[i])
	}
}

func (p *Pool) restore(now time.Time, v *SavedPool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.Turn >= 0 && v.Turn < max(len(p.servers), 1) {
		p.turn = v.Turn
	}
	for i := range v.Servers {
		one := &v.Servers[i]
		n := slices.IndexFunc(p.servers, func(s *Server) bool { return s.Addr == one.Addr })
		if n < 0 {
			continue
		}
		s := p.servers[n]
		s.drainedAt, s.failedAt, s.restUntil = one.Drained.Time(now), one.Failed.Time(now), one.RestUntil.Time(now)
		s.credit, s.failures, s.excused, s.cause = one.Credit, max(one.Failures, 0), max(one.Excused, 0), one.Cause
		s.askAt, s.streak, s.checkedAt = one.AskAt.Time(now), one.Streak, one.Checked.Time(now)
		s.rtt, s.upAt, s.passed = one.RTT, one.Up.Time(now), one.Passed
		s.trouble = trouble{
			at: one.Missed.Time(now), last: one.Last.Time(now), turned: max(one.Turned, 0), since: one.Since.Time(now),
			told: min(one.Told, stateCount-1),
		}
		if p.options.Fall > 0 {
			s.downAt = one.Down.Time(now)
		}
		if one.Heard != 0 {
			s.Heard(one.Heard.Time(now))
		}
	}
}
