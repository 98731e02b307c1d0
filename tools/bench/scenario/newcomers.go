package scenario

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"tidegate/tools/bench/process"
)

// A newcomer's datagram costs processor time twice: to deliver it, and to handle it. On loopback, the kernel delivers
// it in the sender's thread, which looks up the listener's socket. Round trips say less. They also have the waits for a
// busy processor.
//
// Deliveries are measured in several windows before the upgrade, and as many after it. New clients send datagrams to
// all listeners of Tidegate in turn, and as many to a socket of the benchmark. The machine's speed changes within
// seconds, by half, and changes both costs. So the figures are ratios of the two.
const (
	newcomerWindows   = 24
	newcomerRounds    = 56 // clients of a window, at Tidegate and at the benchmark's socket
	newcomerDatagrams = 20 // of each client
	newcomerSize      = 20 // bytes
	newcomerPause     = time.Millisecond
)

// newcomerCosts are windows of new clients' datagrams.
type newcomerCosts []newcomerWindow

// newcomerWindow has the costs of a datagram's delivery in µs, to Tidegate and to the benchmark's socket. Each is
// the lower quartile of the window's clients. Higher costs have the interrupts of other work. In lower ones, the
// kernel's own thread may have delivered.
type newcomerWindow struct{ measured, reference float64 }

// ratio returns the median of the windows' ratios.
func (t newcomerCosts) ratio() float64 {
	return t.median(func(w newcomerWindow) float64 { return w.measured / w.reference })
}

// delivery returns the median cost in µs.
func (t newcomerCosts) delivery() float64 {
	return t.median(func(w newcomerWindow) float64 { return w.measured })
}

func (t newcomerCosts) median(of func(newcomerWindow) float64) float64 {
	var all []float64
	for _, w := range t {
		all = append(all, of(w))
	}
	return middle(all)
}

// middle returns the median.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// quartile returns the lower quartile of a list that is not empty.
func quartile(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/4]
}

// halves returns two measurements that had the windows in turn.
func halves[T any](windows []T) (first, second []T) {
	for i, w := range windows {
		if (i+1)/2%2 == 0 { // windows 0, 3, 4, 7, 8 and so on: a machine that gets slower hits both
			first = append(first, w)
		} else {
			second = append(second, w)
		}
	}
	return first, second
}

// noise returns the ratio of two measurements of the same, at least 1. It returns zero if there are not two.
func noise(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a/b, b/a)
}

// newcomers measures deliveries to the listeners of Tidegate. Clients with sessions only do what their protocols need.
func (b *upgradeBench) newcomers(measured []netip.AddrPort) (all newcomerCosts, err error) {
	runtime.LockOSThread() // its time counts
	defer runtime.UnlockOSThread()
	sink, err := process.NewSink()
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	for range newcomerWindows {
		var costs [2][]float64
		for i := range newcomerRounds {
			for k, to := range []netip.AddrPort{measured[i%len(measured)], sink.Addr} {
				cost, err := newcomer(to)
				if err != nil {
					return nil, err
				}
				costs[k] = append(costs[k], cost)
				sink.Drain()
				for until := time.Now().Add(newcomerPause); time.Now().Before(until); { // the other clients read
					if err := b.endpoint.Turn(until); err != nil {
						return nil, err
					}
				}
			}
		}
		all = append(all, newcomerWindow{quartile(costs[0]), quartile(costs[1])})
	}
	return all, nil
}

// newcomer sends a new client's datagrams. It returns the cost of the delivery of one in µs.
func newcomer(to netip.AddrPort) (cost float64, err error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	var datagram [newcomerSize]byte
	before, err := process.ThreadTime()
	if err != nil {
		return 0, err
	}
	for range newcomerDatagrams {
		if _, err := conn.Write(datagram[:]); err != nil {
			return 0, err
		}
	}
	after, err := process.ThreadTime()
	return float64((after - before).Nanoseconds()) / 1000 / newcomerDatagrams, err
}

// loadWindow is the time of one measurement of the process under load.
const loadWindow = 250 * time.Millisecond

// playUnderLoad lets the clients play for a window. It returns the processor time of the measured process over that of
// this one, in several shorter windows. The clients and game servers do the same work before and after an upgrade, so
// their time stands for the machine's speed.
func (b *upgradeBench) playUnderLoad() (loads []float64, err error) {
	for until := time.Now().Add(b.Window); time.Now().Before(until); {
		proxy, own, err := b.loadTimes()
		if err != nil {
			return nil, err
		}
		if err := b.play(time.Now().Add(loadWindow)); err != nil {
			return nil, err
		}
		proxyAfter, ownAfter, err := b.loadTimes()
		if err != nil {
			return nil, err
		}
		loads = append(loads, (proxyAfter-proxy).Seconds()/(ownAfter-own).Seconds())
	}
	return loads, nil
}

// loadTimes returns the processor times of the measured process and of this one.
func (b *upgradeBench) loadTimes() (proxy, own time.Duration, err error) {
	if proxy, err = process.CPUTime(b.process.Process.Pid); err != nil {
		return 0, 0, err
	}
	own, err = process.CPUTime(os.Getpid())
	return proxy, own, err
}
