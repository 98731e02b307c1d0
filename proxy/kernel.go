package proxy

import (
	"strings"
	"syscall"

	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/proxy/relay"
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
