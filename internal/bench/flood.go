package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"
)

// FloodOptions say how to flood.
type FloodOptions struct {
	Players  int           // at each door: RakNet and Riptide terminated, RakNet passed on
	Rate     int           // turns a second of each player: a reliable message, and an unreliable one
	Flood    int           // datagrams a second; 0: as many as one core can send
	Window   time.Duration // of one flood
	Vs       []string      // subjects beside Tidegate: nginx
	Kinds    []string      // of floods; empty: all
	Subject  string        // what the names of subjects must have in them
	Loopback bool          // do without a network of our own
	Tidegate []string      // command that is Tidegate
	Progress func(string)  // told of what is under way; may be nil

	Context context.Context // whose end ends the measurement; nil: nothing does
}

func (o *FloodOptions) check() error {
	switch {
	case o.Players < 1 || o.Players > 50:
		return fmt.Errorf("%d players at each door: %w: want 1 to 50", o.Players, ErrOptions)
	case o.Rate < 1 || o.Rate > 1000:
		return fmt.Errorf("%d turns a second: %w: want 1 to 1000", o.Rate, ErrOptions)
	case o.Flood < 0 || o.Window < 100*time.Millisecond:
		return fmt.Errorf("flood of %d for %v: %w: want at least 100ms", o.Flood, o.Window, ErrOptions)
	}
	for _, name := range o.Vs {
		if name != "nginx" {
			return fmt.Errorf("%q: %w: want nginx", name, ErrOptions)
		}
	}
	for _, name := range o.Kinds {
		if !slices.Contains(Floods(), name) {
			return fmt.Errorf("%q: %w: want one of %q", name, ErrOptions, Floods())
		}
	}
	return nil
}

// Floods are the kinds that there are.
func Floods() (names []string) {
	for _, a := range assaults {
		names = append(names, a.name)
	}
	return names
}

func (o *FloodOptions) tell(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// FloodResult is what a flood found out.
type FloodResult struct {
	Arena   string         `json:"arena"` // "veth" or "loopback"
	Why     string         `json:"why,omitempty"`
	Players int            `json:"players"`
	Rate    int            `json:"rate"`
	Window  time.Duration  `json:"window_ns"`
	Machine string         `json:"machine"`
	Figures []FloodFigures `json:"figures"`
	Missing []string       `json:"missing,omitempty"` // not measured, with the reason
}

// FloodFigures are those of one subject and one kind of flood.
type FloodFigures struct {
	Subject        string  `json:"subject"`
	Kind           string  `json:"kind"`
	Sent           float64 `json:"sent_per_second"`
	Line           float64 `json:"line_drops_per_second"`   // that found no room before they were received
	User           float64 `json:"user_drops_per_second"`   // read and dropped by Tidegate
	Kernel         float64 `json:"kernel_drops_per_second"` // by Tidegate's filters
	Buffer         float64 `json:"buffer_drops_per_second"` // by the kernel, for want of room in a socket's buffer
	Reliable       uint64  `json:"reliable"`
	ReliableLost   uint64  `json:"reliable_lost"` // that had not come back 6 s after the flood
	Unreliable     uint64  `json:"unreliable"`
	UnreliableLost uint64  `json:"unreliable_lost"`
	Gone           int     `json:"players_gone"` // whose connections ended
	Newcomers      int     `json:"newcomers"`    // of one at each door, those who came in during the flood
	P50            float64 `json:"rtt_p50_us"`   // of reliable messages
	P99            float64 `json:"rtt_p99_us"`
	CalmP99        float64 `json:"calm_rtt_p99_us"` // before the flood
	Late           float64 `json:"late_p99_us"`     // how late players were in saying something: the measuring side's own delay
	Core           float64 `json:"core"`            // cores that the flood took of the subject and of the kernel's receiving
	DropCost       float64 `json:"cpu_ns_per_drop"` // that, for each datagram dropped there
	Before         int64   `json:"rss_before"`      // bytes
	After          int64   `json:"rss_after"`
}

// settleTime is how long reliable messages may take after a flood, and lastTime is what others have when these are there.
const (
	settleTime = 6 * time.Second
	lastTime   = 100 * time.Millisecond
)

// Flood measures what players notice of a flood, by kinds of floods and subjects. Each pair of them begins anew.
func Flood(o *FloodOptions) (*FloodResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &FloodResult{Players: o.Players * doors, Rate: o.Rate, Window: o.Window, Machine: machine()}
	a, why := openArena(o)
	defer a.close()
	r.Arena, r.Why = a.name, why
	if a.worker != 0 { // whoever has the right to lay a cable has that to be first, too
		defer func() { _ = hurrySession(0) }()
		if err := favour(a); err != nil {
			o.tell("priorities are as they are: %v", err)
		}
	}
	for i := range assaults {
		if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, assaults[i].name) {
			continue
		}
		for _, t := range targets(o, a) {
			o.tell("%s: %s", assaults[i].name, t.name)
			f, err := (&battle{o: o, arena: a, dir: dir, assault: &assaults[i], target: t}).fight()
			if over := (interruption{o.Context}).err(); over != nil {
				return nil, over
			}
			if err != nil {
				r.Missing = append(r.Missing, fmt.Sprintf("%s, %s: %v", t.name, assaults[i].name, err))
				continue
			}
			r.Figures = append(r.Figures, *f)
		}
	}
	return r, nil
}

// openArena prefers a network of our own, and says why there is none.
func openArena(o *FloodOptions) (*arena, string) {
	if o.Loopback {
		return openLoopback(), ""
	}
	a, err := openCable()
	if err != nil {
		return openLoopback(), err.Error()
	}
	return a, ""
}

// Priorities: all that is measured goes before whoever else is there, and players before the flood, which shares their core.
const (
	subjectNice = -15
	gameNice    = -15
	sessionNice = -19
)

// favour puts ourselves and the worker in their places.
func favour(a *arena) error {
	return errors.Join(pin(os.Getpid(), 0), hurryAll(os.Getpid(), gameNice), hurrySession(sessionNice),
		pin(a.worker, runtime.NumCPU()-1), interrupt(a.worker))
}

// battle is one flood at one subject.
type battle struct {
	o       *FloodOptions
	arena   *arena
	dir     string
	assault *assault
	target  target

	game    *party
	subject *subject
	to      [doors]netip.AddrPort
}

// fight starts everything, measures calm and flood, and ends everything.
func (b *battle) fight() (*FloodFigures, error) {
	var err error
	if b.game, err = newParty(b.o.Rate); err != nil {
		return nil, err
	}
	defer b.game.close()
	b.game.interruption = interruption{b.o.Context}
	if err := b.start(); err != nil {
		return nil, err
	}
	defer b.subject.stop()
	if err := b.gather(); err != nil {
		return nil, err
	}
	f := &FloodFigures{Subject: b.target.name, Kind: b.assault.name}
	calm, err := b.observe(b.o.Window/2, nothingDone, nothingDone)
	if err != nil {
		return nil, err
	}
	f.CalmP99 = float64(b.game.delays.ValueAtQuantile(99))
	return f, b.flood(f, calm)
}

// start runs the subject on the last core.
func (b *battle) start() error {
	for door := range b.to {
		addr, err := freeAddrAt(b.arena.server)
		if err != nil {
			return err
		}
		b.to[door] = addr
	}
	var err error
	if b.subject, err = b.target.start(b); err != nil {
		return err
	}
	if err := errors.Join(pin(b.subject.pid(), runtime.NumCPU()-1), hurryAll(b.subject.pid(), subjectNice)); err != nil {
		b.o.tell("%s runs as it likes: %v", b.target.name, err)
	}
	return nil
}

// gather has the players come, and play until enough is on the tape.
func (b *battle) gather() error {
	if err := b.game.join(b.arena, b.to, 0, b.o.Players); err != nil {
		return err
	}
	all := b.o.Players * doors
	if err := b.game.play(10*time.Second, func() bool { return b.game.ready() == all }); err != nil {
		return err
	}
	if got := b.game.ready(); got < all {
		return fmt.Errorf("%d of %d players came in", got, all)
	}
	b.game.sending = true
	return b.game.play(10*time.Second, func() bool { return len(b.game.tape.later) >= all })
}

func nothingDone() error { return nil }

// flood adds what the flood does.
func (b *battle) flood(f *FloodFigures, calm *reading) error {
	what := &flood{arena: b.arena, assault: b.assault, shots: b.assault.arm(&b.game.tape), to: b.to, rate: b.o.Flood}
	for _, e := range b.game.players {
		what.players = append(what.players, e.Key.Client)
	}
	storm, err := aim(what)
	if err != nil {
		return err
	}
	defer storm.close()
	if f.Before, err = rssOf(b.subject.pid()); err != nil {
		return err
	}
	var sent uint64
	r, err := b.observe(b.o.Window, func() error {
		storm.start()
		return b.game.join(b.arena, b.to, b.o.Players, 1)
	}, func() (err error) {
		sent, err = storm.stop()
		return err
	})
	if err != nil {
		return err
	}
	if f.After, err = rssOf(b.subject.pid()); err != nil {
		return err
	}
	b.game.sending = false
	f.tally(r, calm, sent)
	settled := b.game.play(settleTime, func() bool { return b.game.missing() == 0 })
	if err := errors.Join(settled, b.game.play(lastTime, nil)); err != nil {
		return err
	}
	f.count(b.game, b.o.Players*doors)
	return nil
}

// tally makes figures of readings of the flood and of the calm before.
func (f *FloodFigures) tally(r, calm *reading, sent uint64) {
	took := r.took.Seconds()
	f.Sent = float64(sent) / took
	f.Line = float64(r.line) / took
	f.User, f.Kernel, f.Buffer = float64(r.user)/took, float64(r.kernel)/took, float64(r.buffer)/took
	f.Core = r.cpu.Seconds()/took - calm.cpu.Seconds()/calm.took.Seconds()
	if dropped := f.User + f.Kernel + f.Buffer; dropped > 0 {
		f.DropCost = f.Core * 1e9 / dropped
	}
}

// count adds what the players noticed. Newcomers are those after the first so many.
func (f *FloodFigures) count(g *party, players int) {
	f.P50, f.P99 = float64(g.delays.ValueAtQuantile(50)), float64(g.delays.ValueAtQuantile(99))
	f.Late = float64(g.late.ValueAtQuantile(99))
	for _, e := range g.players {
		p := e.Value.player
		if players--; players < 0 {
			if p.up {
				f.Newcomers++
			}
			continue
		}
		if p.gone {
			f.Gone++
		}
		f.Unreliable += p.sent[0]
		f.UnreliableLost += p.sent[0] - min(p.sent[0], p.returned[0])
		f.Reliable += p.sent[1]
		f.ReliableLost += p.sent[1] - min(p.sent[1], p.returned[1])
	}
}
