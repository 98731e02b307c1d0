package scenario

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"tidegate/codec/endpoint"
	"tidegate/internal/table"
	"tidegate/internal/testkit/freeport"
	"tidegate/tools/bench/process"
)

// Upgraded is the result of Upgrade.
type Upgraded struct {
	Sessions  int      `json:"sessions"`
	Idle      int      `json:"idle"` // further relayed sessions without traffic
	Protocols []string `json:"protocols"`
	Rate      int      `json:"rate"` // messages a second of all clients; those of rare protocols send more (often)
	Machine   string   `json:"machine"`
	Earlier   int      `json:"ended_before"` // sessions that ended before the upgrade: the machine is too busy
	Ended     int      `json:"ended"`        // sessions, from the upgrade on
	Lost      int      `json:"lost"`         // reliable messages, there or back
	Doubled   int      `json:"doubled"`      // reliable messages
	// Waits of the clients for an answer, in ms. Each client counts with its longest.
	Median  float64 `json:"wait_p50_ms"`
	P99     float64 `json:"wait_p99_ms"`
	Longest float64 `json:"wait_longest_ms"`
	Usual   float64 `json:"wait_longest_before_ms"` // in the same time before the upgrade
	Stood   float64 `json:"stood_still_ms"`
	Exit    float64 `json:"old_process_ended_ms"` // after its successor ran
	// Processor times to deliver a new client's datagram in µs, and their ratios to those of a socket of the benchmark
	// (newcomers.go): Ratio is the one after the upgrade over the one before. Noise is that of two measurements before.
	Before float64 `json:"newcomer_cpu_before_us"`
	Again  float64 `json:"newcomer_cpu_before_again_us"` // a second measurement, in turn with the first one
	After  float64 `json:"newcomer_cpu_after_us"`
	Ratio  float64 `json:"newcomer_cpu_ratio"`
	Noise  float64 `json:"newcomer_cpu_noise"`
	// Processor time of the process for the same load, after the upgrade over before.
	LoadRatio float64 `json:"process_cpu_ratio"`
	LoadNoise float64 `json:"process_cpu_noise"`
	// Shares of the machine's processor time before the upgrade, in percent: of all programs, and of programs that the
	// measurement has not started. Zero if unknown.
	Busy   float64 `json:"machine_busy_percent"`
	Others float64 `json:"machine_busy_with_others_percent"`
	// TooBusy means that clients with reliable messages waited for more than longestUsual, or lost their sessions,
	// before the upgrade.
	TooBusy bool `json:"too_busy"`
	// Each has the results by protocol.
	Each []UpgradedProtocol `json:"by_protocol"`
}

// longestUsual is the longest wait in ms before an upgrade that says something of the program. On loopback, longer ones
// come from a machine that cannot carry the load.
const longestUsual = 10

// upgradeBench is a running measurement.
type upgradeBench struct {
	*Options
	process  *exec.Cmd
	group    int                 // of the process and its successors
	dir      string              // of its configuration
	lines    chan map[string]any // of the log
	endpoint *endpoint.Endpoint[*upgradePlayer]
	players  []*upgradePlayer
	epoch    time.Time
	plans    []timetable
	phase    ending // of sessions that end now
	doubled  int
}

// upgradeListener is a listener of the measured process, with its game server.
type upgradeListener struct {
	upgradeKind
	at   netip.AddrPort
	game *game
}

// upgradeRate is the largest number of messages a second of all clients, unless the user asks for more. A machine of
// two cores carries so many with 10,000 sessions, and has time left. Otherwise the waits are the machine's.
const upgradeRate = 2000

// Upgrade measures an upgrade of Tidegate under load, with the sessions of all protocols.
func Upgrade(o *Options) (*Upgraded, error) {
	o.Size, o.Rounds = max(o.Size, minSize), 1
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Rate == 0 {
		o.Rate = min(2*o.Sessions, upgradeRate)
	}
	b := &upgradeBench{Options: o, lines: make(chan map[string]any, 1024), epoch: time.Now(), phase: endedBefore}
	var err error
	if b.endpoint, err = endpoint.New(endpoint.Options[*upgradePlayer]{Event: b.event}); err != nil {
		return nil, err
	}
	defer func() { _ = b.endpoint.Close() }()
	relayed, err := startEcho()
	if err != nil {
		return nil, err
	}
	defer relayed.stop()
	listeners, err := startGames(upgradeKinds())
	defer func() {
		for _, l := range listeners {
			l.game.stop()
		}
	}()
	if err != nil {
		return nil, err
	}
	strangers, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	defer b.stop()
	if err := b.start(listeners, strangers, relayed.addr()); err != nil {
		return nil, err
	}
	if o.Idle > 0 {
		idle, err := newDatagramLoad(o.Idle, o.Size, strangers)
		if err != nil {
			return nil, err
		}
		defer idle.close()
		idle.ctx = o.Context
		if err := idle.open(); err != nil {
			return nil, err
		}
	}
	if err := b.join(listeners); err != nil {
		return nil, err
	}
	return b.measure(listeners, strangers)
}

func startGames(of []upgradeKind) (all []upgradeListener, err error) {
	for _, k := range of {
		l := upgradeListener{upgradeKind: k}
		if l.at, err = freeport.Find(process.Loopback); err != nil {
			return all, err
		}
		if l.game, err = k.serve(); err != nil {
			return all, err
		}
		all = append(all, l)
	}
	return all, nil
}

func (b *upgradeBench) measure(listeners []upgradeListener, strangers netip.AddrPort) (*Upgraded, error) {
	r := &Upgraded{
		Sessions: b.Sessions, Idle: b.Idle, Rate: b.Rate, Machine: process.Machine(),
	}
	for _, l := range listeners {
		r.Protocols = append(r.Protocols, l.name)
		r.Each = append(r.Each, UpgradedProtocol{Name: l.name, Clients: make(map[string]int), Proxy: make(map[string]int)})
	}
	all := []netip.AddrPort{strangers}
	for _, l := range listeners {
		if l.stream == nil {
			all = append(all, l.at)
		}
	}
	before, err := b.newcomers(all)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.play(time.Now().Add(b.Window)), b.settle()); err != nil {
		return nil, err
	}
	b.waits()
	loadsBefore, err := b.playMeasured(r)
	if err != nil {
		return nil, err
	}
	b.waitsByProtocol(r)
	r.TooBusy = b.slowest() > longestUsual
	r.Usual = slices.Max(b.waits())
	b.phase = endedSince
	if err := b.upgrade(r); err != nil {
		return nil, err
	}
	if err := errors.Join(b.play(time.Now().Add(b.Window)), b.settle()); err != nil {
		return nil, err
	}
	if err := b.byProtocol(r); err != nil {
		return nil, err
	}
	waits := b.waits()
	r.Median, r.P99, r.Longest = waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1]
	r.Doubled = b.doubled
	for _, e := range r.Each {
		r.Earlier, r.Ended, r.Lost = r.Earlier+e.Earlier, r.Ended+e.Ended, r.Lost+e.Lost
	}
	r.TooBusy = r.TooBusy || r.Earlier > 0
	loadsAfter, err := b.playUnderLoad()
	if err != nil {
		return nil, err
	}
	r.compareLoads(loadsBefore, loadsAfter)
	after, err := b.newcomers(all)
	if err != nil {
		return nil, err
	}
	r.compare(before, after)
	return r, nil
}

// compare notes the costs of newcomers' datagrams before and after the upgrade.
func (r *Upgraded) compare(before, after newcomerCosts) {
	all, again := halves(before)
	first, second := newcomerCosts(all), newcomerCosts(again)
	r.Before, r.Again, r.After = first.delivery(), second.delivery(), after.delivery()
	r.Ratio = after.ratio() / before.ratio()
	r.Noise = noise(first.ratio(), second.ratio())
}

// compareLoads notes the processor times of the process before and after the upgrade.
func (r *Upgraded) compareLoads(before, after []float64) {
	first, second := halves(before)
	r.LoadRatio = middle(after) / middle(before)
	r.LoadNoise = noise(middle(first), middle(second))
}

// playMeasured is playUnderLoad, and notes how busy the machine is meanwhile.
func (b *upgradeBench) playMeasured(r *Upgraded) ([]float64, error) {
	ours := func() time.Duration {
		own, _ := process.CPUTime(os.Getpid()) // zero where it is unknown
		proxy, _ := process.CPUTime(b.process.Process.Pid)
		return own + proxy
	}
	all, err := process.MachineTime()
	own, began := ours(), time.Now()
	loads, playErr := b.playUnderLoad()
	if playErr != nil {
		return nil, playErr
	}
	if after, afterErr := process.MachineTime(); err == nil && afterErr == nil {
		whole := time.Since(began).Seconds() * float64(runtime.NumCPU()) / 100
		r.Busy = (after - all).Seconds() / whole
		r.Others = max(0, (after-all-ours()+own).Seconds()/whole)
	}
	return loads, nil
}

// Print writes the result as a table.
func (r *Upgraded) Print(w io.Writer) error {
	fmt.Fprintf(w, "upgrade: %d sessions of %v, %d idle ones, %d messages/s; %s\n\n", r.Sessions, r.Protocols, r.Idle,
		r.Rate, r.Machine)
	table.Print(w, 0, figureColumns("figure", "value"), [][]string{
		{"sessions ended before the upgrade", fmt.Sprint(r.Earlier)},
		{"sessions ended in the upgrade", fmt.Sprint(r.Ended)},
		{"reliable messages lost", fmt.Sprint(r.Lost)},
		{"reliable messages doubled", fmt.Sprint(r.Doubled)},
		{"longest wait before the upgrade, ms", decimals(1, r.Usual)},
		{"longest wait in the upgrade, median client, ms", decimals(1, r.Median)},
		{"the same, p99 of clients", decimals(1, r.P99)},
		{"the same, slowest client", decimals(1, r.Longest)},
		{"the process stood still, ms", decimals(0, r.Stood)},
		{"the old process ended after, ms", decimals(1, r.Exit)},
		{"delivery of a newcomer's datagram before, µs of processor", decimals(2, (r.Before+r.Again)/2)},
		{"the same after", decimals(2, r.After)},
		{"ratio, each to a socket of the benchmark", decimals(3, r.Ratio)},
		{"the same of two measurements before", decimals(3, r.Noise)},
		{"the process's processor time for the load, after over before", decimals(2, r.LoadRatio)},
		{"the same of two measurements before", decimals(2, r.LoadNoise)},
		{"machine busy before the upgrade, %", decimals(0, r.Busy)},
		{"machine busy with other programs, %", decimals(0, r.Others)},
	})
	fmt.Fprintln(w)
	var rows [][]string
	for _, e := range r.Each {
		rows = append(rows, []string{e.Name, fmt.Sprint(e.Sessions), fmt.Sprint(e.Earlier), fmt.Sprint(e.Ended),
			fmt.Sprint(e.Lost), decimals(1, e.Usual), decimals(1, e.Longest)})
	}
	table.Print(w, 0, figureColumns("protocol", "sessions", "ended before", "ended in", "lost", "longest wait before, ms",
		"in"), rows)
	for i := range r.Each {
		r.Each[i].printReasons(w)
	}
	if r.TooBusy {
		fmt.Fprintf(w, "before the upgrade, clients waited for %.1f ms, and %d sessions ended: the machine is too busy; "+
			"do not use these figures\n", r.Usual, r.Earlier)
	}
	return nil
}
