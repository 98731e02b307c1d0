// Package flood measures what clients notice while one core floods a subject with forged datagrams. It also has the
// generator of these floods.
//
// The product does not contain this package. Start with Run.
package flood

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"tidegate/internal/table"
	"tidegate/internal/testkit/freeport"
	"tidegate/tools/bench/process"
	"tidegate/tools/bench/scenario"
)

// Options configure a measurement.
type Options struct {
	Clients  int           // at each listener: RakNet and Riptide terminated, RakNet and NetherNet relayed
	Rate     int           // turns a second of each client: a reliable and an unreliable message
	Flood    int           // datagrams a second; 0: as many as one core can send
	Window   time.Duration // of one flood
	Vs       []string      // programs to flood beside Tidegate: nginx
	Kinds    []string      // of floods; empty: all
	Subject  string        // only subjects with this text in their names
	Loopback bool          // use the loopback interface, not a virtual cable
	Tidegate []string      // command that runs Tidegate
	Progress func(string)  // takes progress messages; may be nil

	Context context.Context // its end ends the measurement; nil: it never ends
}

func (o *Options) check() error {
	switch {
	case o.Clients < 1 || o.Clients > 31:
		return fmt.Errorf("%d clients at each listener: %w: want 1 to 31", o.Clients, scenario.ErrOptions)
	case o.Rate < 1 || o.Rate > 1000:
		return fmt.Errorf("%d turns a second: %w: want 1 to 1000", o.Rate, scenario.ErrOptions)
	case o.Flood < 0 || o.Window < 100*time.Millisecond:
		return fmt.Errorf("flood of %d for %v: %w: want at least 100ms", o.Flood, o.Window, scenario.ErrOptions)
	}
	for _, name := range o.Vs {
		if name != "nginx" {
			return fmt.Errorf("%q: %w: want nginx", name, scenario.ErrOptions)
		}
	}
	for _, name := range o.Kinds {
		if !slices.Contains(Kinds(), name) {
			return fmt.Errorf("%q: %w: want one of %q", name, scenario.ErrOptions, Kinds())
		}
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	return nil
}

// Kinds returns the names of all kinds of floods.
func Kinds() (names []string) {
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

func (o *Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Result has the figures of all measurements.
type Result struct {
	Network string        `json:"network"` // "veth" or "loopback"
	Why     string        `json:"why,omitempty"`
	Clients int           `json:"players"`
	Rate    int           `json:"rate"`
	Window  time.Duration `json:"window_ns"`
	Machine string        `json:"machine"`
	Figures []Figures     `json:"figures"`
	Missing []string      `json:"missing,omitempty"` // not measured, with the reason
}

// Figures are the figures of one subject and one kind of flood.
type Figures struct {
	Subject        string  `json:"subject"`
	Kind           string  `json:"kind"`
	Sent           float64 `json:"sent_per_second"`
	Line           float64 `json:"line_drops_per_second"`   // no room on the virtual cable
	User           float64 `json:"user_drops_per_second"`   // read and dropped by Tidegate
	Kernel         float64 `json:"kernel_drops_per_second"` // dropped by Tidegate's filters
	Buffer         float64 `json:"buffer_drops_per_second"` // dropped by the kernel: a socket's buffer was full
	Reliable       uint64  `json:"reliable"`
	ReliableLost   uint64  `json:"reliable_lost"` // not returned within 6 s after the flood
	Unreliable     uint64  `json:"unreliable"`
	UnreliableLost uint64  `json:"unreliable_lost"`
	Gone           int     `json:"players_gone"` // clients that lost their connection
	Forwarded      uint64  `json:"forwarded"`    // datagrams at the edge's server that no client has made
	Newcomers      int     `json:"newcomers"`    // clients, one at each listener, that connected during the flood
	P50            float64 `json:"rtt_p50_us"`   // round trip of reliable messages
	P99            float64 `json:"rtt_p99_us"`
	CalmP99        float64 `json:"calm_rtt_p99_us"` // before the flood
	Late           float64 `json:"late_p99_us"`     // delay of the clients' sending: the measuring process's own
	Core           float64 `json:"core"`            // cores of the subject and the kernel's receiving that the flood used
	DropCost       float64 `json:"cpu_ns_per_drop"` // the same for each dropped datagram
	Before         int64   `json:"rss_before"`      // bytes
	After          int64   `json:"rss_after"`
}

// settleTime is how long reliable messages may take after a flood. lastTime is the extra time for unreliable messages.
const (
	settleTime = 6 * time.Second
	lastTime   = 100 * time.Millisecond
)

// Run measures all kinds of floods against all subjects. Each measurement starts with a new process and new clients.
func Run(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result := &Result{Clients: o.Clients * listeners, Rate: o.Rate, Window: o.Window, Machine: process.Machine()}
	t, why := openTestbed(o)
	defer t.close()
	result.Network, result.Why = t.name, why
	if t.napiThread != 0 { // the right to make a cable includes the right to set priorities
		defer func() { _ = setSessionNice(0) }()
		if err := setPriorities(t); err != nil {
			o.progress("priorities not set: %v", err)
		}
	}
	for i := range attacks {
		if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, attacks[i].name) {
			continue
		}
		for _, s := range subjects(o, t) {
			o.progress("%s: %s", attacks[i].name, s.name)
			f, err := (&run{o: o, testbed: t, dir: dir, attack: &attacks[i], subject: s}).measure()
			switch {
			case o.Context.Err() != nil:
				return nil, context.Cause(o.Context)
			case err != nil:
				result.Missing = append(result.Missing, fmt.Sprintf("%s, %s: %v", s.name, attacks[i].name, err))
			default:
				result.Figures = append(result.Figures, *f)
			}
		}
	}
	return result, nil
}

// openTestbed opens a virtual cable, or returns the reason why it uses loopback.
func openTestbed(o *Options) (*testbed, string) {
	if o.Loopback {
		return openLoopback(), ""
	}
	t, err := openVeth()
	if err != nil {
		return openLoopback(), err.Error()
	}
	return t, ""
}

// Priorities put the measured processes before all others, and the clients before the flood that shares their core.
const (
	subjectNice = -15
	clientNice  = -15
	sessionNice = -19
)

// setPriorities places this process and the kernel's receiving thread.
func setPriorities(t *testbed) error {
	return errors.Join(process.Pin(os.Getpid(), 0), setNiceAll(os.Getpid(), clientNice), setSessionNice(sessionNice),
		process.Pin(t.napiThread, runtime.NumCPU()-1), setRealTime(t.napiThread))
}

// run is one flood of one subject.
type run struct {
	o       *Options
	testbed *testbed
	dir     string
	attack  *attack
	subject subject

	clients *clients
	process *process.Process
	to      [listeners]netip.AddrPort
}

// measure starts everything, measures without and with the flood, and stops everything.
func (r *run) measure() (*Figures, error) {
	var err error
	if r.clients, err = newClients(r.o.Context, r.o.Rate); err != nil {
		return nil, err
	}
	defer r.clients.close()
	if err := r.start(); err != nil {
		return nil, err
	}
	defer r.process.Stop()
	if err := r.connect(); err != nil {
		return nil, err
	}
	f := &Figures{Subject: r.subject.name, Kind: r.attack.name}
	nothing := func() error { return nil }
	calm, err := r.observe(r.o.Window/2, nothing, nothing)
	if err != nil {
		return nil, err
	}
	f.CalmP99 = float64(r.clients.delays.ValueAtQuantile(99))
	return f, r.flood(f, calm)
}

// start runs the subject on the last core.
func (r *run) start() error {
	for listener := range r.to {
		addr, err := freeport.Find(r.testbed.server)
		if err != nil {
			return err
		}
		r.to[listener] = addr
	}
	var err error
	if r.process, err = r.subject.start(r); err != nil {
		return err
	}
	pid := r.process.PID()
	if err := errors.Join(process.Pin(pid, runtime.NumCPU()-1), setNiceAll(pid, subjectNice)); err != nil {
		r.o.progress("%s: priority not set: %v", r.subject.name, err)
	}
	return nil
}

// connect connects the clients and runs them until the recording is complete.
func (r *run) connect() error {
	if err := r.clients.join(r.testbed, r.to, 0, r.o.Clients); err != nil {
		return err
	}
	all := r.o.Clients * listeners
	if err := r.clients.run(10*time.Second, func() bool { return r.clients.connected() == all }); err != nil {
		return err
	}
	if got := r.clients.connected(); got < all {
		return fmt.Errorf("%d of %d clients are connected", got, all)
	}
	r.clients.sending = true
	return r.clients.run(10*time.Second, func() bool { return len(r.clients.recording.later) >= all })
}

// flood floods the subject and adds the figures. The calm gauges are from before the flood.
func (r *run) flood(f *Figures, calm *gauges) error {
	p := &plan{
		testbed: r.testbed, attack: r.attack, packets: r.attack.packets(&r.clients.recording), to: r.to, rate: r.o.Flood,
	}
	for _, c := range r.clients.conns {
		p.clients = append(p.clients, c.Local())
	}
	flood, err := newFlood(p)
	if err != nil {
		return err
	}
	defer flood.close()
	if f.Before, err = process.RSS(r.process.PID()); err != nil {
		return err
	}
	var sent uint64
	junk := theEdge.junk.Load()
	observed, err := r.observe(r.o.Window, func() error {
		flood.start()
		return r.clients.join(r.testbed, r.to, r.o.Clients, 1)
	}, func() (err error) {
		sent, err = flood.stop()
		return err
	})
	if err != nil {
		return err
	}
	if f.After, err = process.RSS(r.process.PID()); err != nil {
		return err
	}
	r.clients.sending = false
	f.addGauges(observed, calm, sent)
	f.Forwarded = theEdge.junk.Load() - junk
	settled := r.clients.run(settleTime, func() bool { return r.clients.missing() == 0 })
	if err := errors.Join(settled, r.clients.run(lastTime, nil)); err != nil {
		return err
	}
	f.addClients(r.clients, r.o.Clients*listeners)
	return nil
}

// addGauges adds the gauges of the flood, less the processor time of the calm before it.
func (f *Figures) addGauges(g, calm *gauges, sent uint64) {
	took := g.took.Seconds()
	f.Sent = float64(sent) / took
	f.Line = float64(g.line) / took
	f.User, f.Kernel, f.Buffer = float64(g.user)/took, float64(g.kernel)/took, float64(g.buffer)/took
	f.Core = g.cpu.Seconds()/took - calm.cpu.Seconds()/calm.took.Seconds()
	if dropped := f.User + f.Kernel + f.Buffer; dropped > 0 {
		f.DropCost = f.Core * 1e9 / dropped
	}
}

// addClients adds the clients' counts. Clients after the first count are newcomers.
func (f *Figures) addClients(c *clients, count int) {
	f.P50, f.P99 = float64(c.delays.ValueAtQuantile(50)), float64(c.delays.ValueAtQuantile(99))
	f.Late = float64(c.late.ValueAtQuantile(99))
	for i, one := range c.conns {
		p := one.Value
		if i >= count {
			if p.connected {
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

// Print writes the result as a table.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "flood over %s: %d clients at %d Hz, %v each; %s\n\n",
		r.Network, r.Clients, r.Rate, r.Window, r.Machine)
	if r.Why != "" {
		fmt.Fprintf(w, "no virtual cable, so the flood's core also pays for receiving: %s\n\n", r.Why)
	}
	columns := []table.Column{{Name: "flood"}, {Name: "subject"}}
	for _, name := range []string{
		"sent k/s", "dropped: line", "user", "kernel", "buffer", "reliable lost", "unreliable lost %", "clients gone",
		"forwarded", "newcomers", "RTT p50 ms", "p99", "calm p99", "late p99", "cores", "ns/drop", "MiB before", "after",
	} {
		columns = append(columns, table.Column{Name: name, Number: true})
	}
	var rows [][]string
	for _, f := range r.Figures {
		number := func(decimals int, v float64) string { return fmt.Sprintf("%.*f", decimals, v) }
		rows = append(rows, []string{
			f.Kind, f.Subject, number(0, f.Sent/1e3), number(0, f.Line/1e3), number(0, f.User/1e3),
			number(0, f.Kernel/1e3), number(0, f.Buffer/1e3), fmt.Sprintf("%d of %d", f.ReliableLost, f.Reliable),
			number(2, 100*float64(f.UnreliableLost)/float64(max(1, f.Unreliable))), fmt.Sprint(f.Gone), fmt.Sprint(f.Forwarded),
			fmt.Sprintf("%d of %d", f.Newcomers, listeners), number(1, f.P50/1e3), number(1, f.P99/1e3),
			number(1, f.CalmP99/1e3), number(1, f.Late/1e3), number(2, f.Core), scenario.Figure(f.DropCost),
			number(1, float64(f.Before)/(1<<20)), number(1, float64(f.After)/(1<<20)),
		})
	}
	table.Print(w, 0, columns, rows)
	for _, m := range r.Missing {
		fmt.Fprintln(w, "not measured:", m)
	}
	return nil
}
