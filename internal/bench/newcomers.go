package bench

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Newcomers are measured in several windows before the upgrade, and as many after it. Their datagrams go to Tidegate
// and to a second Tidegate in turn, which has no other sessions and is not upgraded. The machine's speed and its choice
// of cores change within seconds, by half, and change both round trips. So the figures are ratios of the two. The pause
// between two clients lets the other clients read what they have received meanwhile.
const (
	newcomerWindows   = 24
	newcomerRounds    = 25 // clients of a window
	newcomerDatagrams = 20 // of each client, to each Tidegate
	newcomerLost      = 5  // datagrams that a client may lose
	newcomerPause     = 3 * time.Millisecond
)

// newcomerTrips are windows of new clients' round trips.
type newcomerTrips []newcomerWindow

// newcomerWindow has the 10th percentiles of a window in µs, through the measured Tidegate and through the reference.
type newcomerWindow struct{ measured, reference float64 }

// ratio returns the median of the windows' ratios.
func (t newcomerTrips) ratio() float64 {
	return t.median(func(w newcomerWindow) float64 { return w.measured / w.reference })
}

// trip returns the median round trip in µs.
func (t newcomerTrips) trip() float64 {
	return t.median(func(w newcomerWindow) float64 { return w.measured })
}

func (t newcomerTrips) median(of func(newcomerWindow) float64) float64 {
	var all []float64
	for _, w := range t {
		all = append(all, of(w))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// halves returns two measurements that had the windows in turn.
func (t newcomerTrips) halves() (first, second newcomerTrips) {
	for i, w := range t {
		if (i+1)/2%2 == 0 { // windows 0, 3, 4, 7, 8 and so on: a machine that gets slower hits both
			first = append(first, w)
		} else {
			second = append(second, w)
		}
	}
	return first, second
}

// newcomers measures round trips to relayed listeners of the measured Tidegate and of the reference. Clients with
// sessions only do what their protocols need.
func (b *upgradeBench) newcomers(measured, reference netip.AddrPort) (all newcomerTrips, err error) {
	for range newcomerWindows {
		var trips [2][]float64
		for range newcomerRounds {
			if err := b.newcomer([2]netip.AddrPort{measured, reference}, &trips); err != nil {
				return nil, err
			}
		}
		for _, one := range trips {
			slices.Sort(one)
		}
		all = append(all, newcomerWindow{trips[0][len(trips[0])/10], trips[1][len(trips[1])/10]})
	}
	return all, nil
}

// newcomer adds a new client's round trips to two listeners, in µs.
func (b *upgradeBench) newcomer(to [2]netip.AddrPort, trips *[2][]float64) error {
	var conns [2]*net.UDPConn
	for i, at := range to {
		var err error
		if conns[i], err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at)); err != nil {
			return err
		}
		defer func() { _ = conns[i].Close() }()
	}
	reply, lost := make([]byte, 100), 0
	for range newcomerDatagrams {
		for i, conn := range conns {
			_ = conn.SetReadDeadline(time.Now().Add(lostAfter))
			began := time.Now()
			_, err := conn.Write(reply[:20])
			if err == nil {
				_, err = conn.Read(reply)
			}
			if err == nil {
				trips[i] = append(trips[i], float64(time.Since(began).Nanoseconds())/1000)
			} else if lost++; lost > newcomerLost {
				return fmt.Errorf("a new client: %w", err)
			}
		}
	}
	for until := time.Now().Add(newcomerPause); time.Now().Before(until); {
		if err := b.endpoint.Turn(until); err != nil {
			return err
		}
	}
	return nil
}
