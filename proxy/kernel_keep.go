package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/kernel/shield"
)

// lookEvery is how often it is seen to that XDP is on its interfaces and knows the addresses of this host. Another
// process may have been on them before, such as our predecessor; and addresses come and go.
const lookEvery = 5 * time.Second

// keeper has a Shield know what it must. What it last did is in it, so that it does nothing twice.
type keeper struct {
	left    int // bans that found no room
	targets []shield.Listener
	modes   map[string]shield.Mode // of the interfaces that are guarded
}

// interfaceState is what has become of an interface that shall be guarded.
type interfaceState struct {
	name string
	mode shield.Mode
	err  error // why it is not, or not with what is new
}

func (i *interfaceState) String() string {
	if i.err != nil {
		return inKernel(i.err)
	}
	return i.mode.String()
}

// keepShield has the Shield know the bans, and the interfaces the listeners, until ctx is done.
func (s *Server) keepShield(ctx context.Context) {
	if s.options.Kernel.Shield == nil {
		return
	}
	changed := s.options.Bans.Subscribe()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	expiry := time.NewTimer(0)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			s.lookAtInterfaces()
			continue
		case <-changed:
		case <-expiry.C:
		}
		began := time.Now()
		expiry.Reset(s.shieldBans(began))
		select { // changes in quick succession share one walk over a large set of bans
		case <-ctx.Done():
		case <-time.After(4 * time.Since(began)):
		}
	}
}

// shieldBans has the Shield drop what is banned now, and returns when to look again.
func (s *Server) shieldBans(now time.Time) time.Duration {
	again := time.Hour
	var banned []netip.Prefix
	for ban := range s.options.Bans.Active(now) {
		banned = append(banned, ban.Prefix)
		if !ban.Until.IsZero() {
			again = min(again, ban.Until.Sub(now))
		}
	}
	left, err := s.options.Kernel.Shield.SetBans(banned)
	if err != nil {
		s.options.Log.Warn().Err(err).Msg("the kernel does not know all bans; user space does")
	}
	if left > 0 && s.keeper.left == 0 {
		s.options.Log.Warn().Int("without_room", left).Msg("the kernel does not know all bans; user space does")
	}
	s.keeper.left = left
	return max(again, time.Second)
}

// lookAtInterfaces tells the interfaces of addresses that have come, and tries those again that had no room for us.
func (s *Server) lookAtInterfaces() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.tellInterfaces(s.shieldInterfaces())
}

func (s *Server) tellInterfaces(states []interfaceState) {
	for _, state := range states {
		s.options.Log.Info().Str("interface", state.name).Stringer("mode", &state).Msg("XDP has changed")
	}
}

// shieldInterfaces has XDP know the listeners, and returns the interfaces for which something has changed by it. After
// Listen, Server.reloading is held.
func (s *Server) shieldInterfaces() (states []interfaceState) {
	k := &s.options.Kernel
	if k.Shield == nil || len(k.Interfaces) == 0 || s.handedOver {
		return nil
	}
	targets, err := targetsOf(s.settings, s.addrs)
	if err != nil {
		s.options.Log.Warn().Err(err).Msg("XDP keeps the addresses that it has")
		return nil
	}
	changed := !slices.Equal(targets, s.keeper.targets)
	for _, name := range k.Interfaces {
		was, looked := s.keeper.modes[name]
		if !changed && was != 0 {
			continue
		}
		mode, err := k.Shield.GuardInterface(name, targets)
		if mode != was || !looked || err != nil && was != 0 {
			states = append(states, interfaceState{name, mode, err})
		}
		s.keeper.modes[name] = mode
	}
	s.keeper.targets = targets
	return states
}

// leaveInterfaces makes room on them for a successor. Server.reloading is held.
func (s *Server) leaveInterfaces() {
	s.handedOver = true
	if k := &s.options.Kernel; k.Shield != nil {
		for _, name := range k.Interfaces {
			if err := k.Shield.LeaveInterface(name); err != nil {
				s.options.Log.Warn().Str("interface", name).Err(err).Msg("XDP stays for now")
			}
		}
	}
}

// targetsOf are the addresses at which datagrams come to listeners: for one at all addresses of the host, all those.
func targetsOf(settings *Settings, addrs []netip.AddrPort) (targets []shield.Listener, err error) {
	local, err := localAddrs()
	if err != nil {
		return nil, err
	}
	for i, at := range addrs {
		l := &settings.Listeners[i]
		if l.Shieldable() != nil {
			continue
		}
		here := []netip.Addr{at.Addr()}
		if at.Addr().IsUnspecified() {
			here = local
		}
		for _, ip := range here {
			if ip.Is4() || at.Addr().Is6() { // a socket of IPv6 takes both
				target := shield.Listener{Addr: netip.AddrPortFrom(ip, at.Port()), First: l.FirstBytes()}
				targets = append(targets, target)
			}
		}
	}
	return targets, nil
}

// localAddrs are the addresses of this host.
func localAddrs() (all []netip.Addr, err error) {
	known, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	for _, a := range known {
		if network, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	return all, nil
}
