package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/internal/pause"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Kernel has the features of the operating system's kernel that a Server uses. The zero value uses none.
type Kernel struct {
	Shield     *shield.Shield // drops datagrams before they are read; nil: drops none
	NoShield   error          // the reason for no Shield
	Plain      bool           // without a Shield, drop at least by first bytes, which needs no privilege
	Interfaces []string       // interfaces where datagrams are dropped still earlier
	Flows      *flow.Table    // forwards sessions in ModeRelay; nil: forwards none
	NoFlows    error          // the reason for no Flows
}

// gate returns the gate of a loop, or nil.
func (k *Kernel) gate(loop int) *shield.Gate {
	if k.Shield == nil {
		return nil
	}
	return k.Shield.Gate(loop)
}

// load prepares guard.
func (k *Kernel) load(l *relay.Listener, gate *shield.Gate) error {
	if k.Shield == nil || l.Shieldable() != nil {
		return nil
	}
	return k.Shield.Load(l.FirstBytes(), gate)
}

// guard gives a socket its filter, or removes one that a predecessor has put on it.
func (k *Kernel) guard(socket syscall.Conn, l *relay.Listener, gate *shield.Gate) error {
	if l.Shieldable() == nil && k.Shield == nil && k.Plain {
		return guardClassic(socket, l, nil)
	}
	tellFiltered(socket, false)
	if l.Shieldable() != nil || k.Shield == nil {
		return shield.Unguard(socket)
	}
	return k.Shield.Guard(socket, l.FirstBytes(), gate)
}

// guardClassic gives a socket a filter that needs no privilege.
func guardClassic(socket syscall.Conn, l *relay.Listener, clients *shield.ClientBitmap) error {
	filters, err := shield.GuardClassic(socket, l.FirstBytes(), clients)
	if err == nil {
		tellFiltered(socket, filters)
	}
	return err
}

// tellFiltered tells a socket whether it has a filter that does not count its drops.
func tellFiltered(socket syscall.Conn, on bool) {
	if d, ok := socket.(netio.KernelDropCounter); ok {
		d.SetFiltered(on)
	}
}

// FilterState names in words where strangers' datagrams are dropped: in the kernel, or in user space.
func (k *Kernel) FilterState() string {
	if k.Shield == nil && k.Plain {
		return "kernel, for first bytes and strangers in a flood; the rest in " + inKernel(k.NoShield)
	}
	return inKernel(k.NoShield)
}

// inKernel names in words where work is done. why is the reason against the kernel.
func inKernel(why error) string {
	if why == nil {
		return "kernel"
	}
	return "user space: " + strings.ReplaceAll(why.Error(), "\n", "; ")
}

// keeper remembers the state last given to the Shield, so that unchanged state is not given again.
type keeper struct {
	left    int // bans without room in the Shield
	targets []shield.Listener
	modes   map[string]shield.Mode // by interface that is guarded
}

// lookEvery is how often the Server checks that XDP is on its interfaces and knows the addresses of this host.
// Another process, such as a predecessor, may have been on an interface before. And addresses come and go.
const lookEvery = 5 * time.Second

// interfaceState is the state of an interface that should be guarded.
type interfaceState struct {
	name string
	mode shield.Mode
	err  error // why it is not guarded, or not with the new state
}

func (i *interfaceState) String() string {
	if i.err != nil {
		return inKernel(i.err)
	}
	return i.mode.String()
}

// keepShield gives the Shield the bans, and the interfaces the listeners, until ctx is done.
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
			s.reloading.Lock()
			s.tellInterfaces(s.shieldInterfaces()) // of new addresses; it tries again on interfaces that had no room
			s.reloading.Unlock()
			continue
		case <-changed:
		case <-expiry.C:
		}
		began := time.Now()
		expiry.Reset(s.shieldBans(began))
		pause.For(ctx, 4*time.Since(began)) // changes in quick succession share one walk over a large set of bans
	}
}

// wallClockLook is the longest time between two looks at the ends of bans. They are times of the wall clock, which may
// jump, and a timer does not notice that.
const wallClockLook = time.Minute

// shieldBans gives the Shield the bans in force, and returns the time until the next look.
func (s *Server) shieldBans(now time.Time) time.Duration {
	again := time.Hour
	var banned []netip.Prefix
	for ban := range s.options.Bans.Active(now) {
		banned = append(banned, ban.Prefix)
		if !ban.Until.IsZero() {
			again = min(again, ban.Until.Sub(now), wallClockLook)
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

func (s *Server) tellInterfaces(states []interfaceState) {
	for _, state := range states {
		s.options.Log.Info().Str("interface", state.name).Stringer("mode", &state).Msg("XDP has changed")
	}
}

// shieldInterfaces gives XDP the listeners, and returns the interfaces whose state has changed. After Listen,
// Server.reloading must be held.
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

// leaveInterfaces makes room on the interfaces for a successor. Server.reloading is held.
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

// targetsOf returns the addresses where datagrams reach listeners. A listener at all addresses of the host gets each
// of them.
func targetsOf(settings *relay.Settings, addrs []netip.AddrPort) (targets []shield.Listener, err error) {
	local, err := netio.OwnAddresses()
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
			if ip.Is4() || at.Addr().Is6() { // a socket of IPv6 takes both families
				target := shield.Listener{Addr: netip.AddrPortFrom(ip, at.Port()), First: l.FirstBytes()}
				targets = append(targets, target)
			}
		}
	}
	return targets, nil
}

// startKernel installs the filters. It logs one line with the kernel features in use, and the reasons for the others.
func (s *Server) startKernel() {
	k := &s.options.Kernel
	line := s.options.Log.Info()
	if k.Shield != nil {
		s.shieldBans(time.Now())
	}
	filter := k.FilterState()
	for _, l := range s.loops { // none of them runs yet
		if err := s.shieldSome(l, 0, len(s.settings.Listeners)); err != nil {
			filter = inKernel(err)
			break
		}
	}
	for _, state := range s.shieldInterfaces() {
		line = line.Str("xdp_"+state.name, state.String())
	}
	line.Str("filter", filter).Str("forward", inKernel(k.NoFlows)).Msg("kernel offload")
}

// reloadKernel gives the filters the present settings. Server.reloading is held.
func (s *Server) reloadKernel() {
	for _, l := range s.loops {
		if err := s.reloadFilters(l); err != nil {
			s.options.Log.Warn().Err(err).Msg("a listener is without the kernel's filter")
		}
	}
	s.tellInterfaces(s.shieldInterfaces())
}

// reloadFilters gives the sockets of a loop their filters, in several turns.
func (s *Server) reloadFilters(l *loop) (err error) {
	listeners := s.settings.Listeners
	for i := range listeners { // the kernel checks programs here, not in the loop's turns
		if err := s.options.Kernel.load(&listeners[i], l.gate); err != nil {
			return fmt.Errorf("listener %s: %w", listeners[i].Name, err)
		}
	}
	for first := 0; first < len(listeners) && err == nil; first += turnListeners {
		l.ask(stats.WorkKernel, func(*relay.Relay, time.Time) {
			err = s.shieldSome(l, first, min(first+turnListeners, len(listeners)))
		})
	}
	return err
}

// shieldSome gives the listening sockets of a loop from first to before end the filters of its Relay's settings. It
// runs on the loop's goroutine, or before the loop runs.
func (s *Server) shieldSome(loop *loop, first, end int) error {
	for i := first; i < end; i++ {
		l := &loop.relay.Settings().Listeners[i]
		socket, ok := netio.ListenerOf(loop.relay.ListenerSocket(i)).(syscall.Conn)
		if !ok || l.Transport.Stream {
			continue
		}
		if err := s.options.Kernel.guard(socket, l, loop.gate); err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
	}
	return nil
}
