package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/saved"
)

// RouteModule is a module of a Route.
type RouteModule struct {
	Name    string // each of a route has its own
	Program bridge.Program
	Passes  bool // messages go on while the module fails; else they are dropped
}

// modules are the modules of a route in this Relay. The route keeps them over reloads, so that a reload replaces those
// of all sessions.
type modules struct{ list []loopModule }

// loopModule is a RouteModule's instance.
type loopModule struct {
	*RouteModule
	bridge.Module
}

// replace gives the route other modules.
func (m *modules) replace(by []RouteModule, loop int) {
	m.list = nil
	for i := range by {
		m.list = append(m.list, loopModule{&by[i], by[i].Program.Loop(loop)})
	}
}

// any reports whether there are modules.
func (m *modules) any() bool { return m != nil && m.list != nil }

// ended tells the modules that a session has ended.
func (m *modules) ended(now time.Time, s *link) {
	if !m.any() || s.isRelayed() || s.fromClient.Messages+s.fromServer.Messages == 0 {
		return
	}
	for i := range m.list {
		m.list[i].Ended(now, uint64(s.serial))
	}
}

// calling is the memory for calls of modules.
type calling struct {
	call    bridge.Call
	message codec.Message // of call: the event that has it stays on the stack
	kept    []byte        // of a session that has kept nothing so far
}

// keptBytes are what modules keep with a session, by their names.
type keptBytes []saved.Kept

// maxKept bounds the modules that keep bytes with a session: more than a route has, since reloads change their names.
const maxKept = 16

// of returns the bytes of a module, or nil if it has kept none.
func (k *keptBytes) of(module string) *[]byte {
	for i := range *k {
		if one := &(*k)[i]; one.Module == module {
			return &one.Bytes
		}
	}
	return nil
}

// add adds the bytes of a module. Beyond the bound, those of the first one make room.
func (k *keptBytes) add(one saved.Kept) {
	if len(*k) >= maxKept {
		*k = append((*k)[:0], (*k)[1:]...)
	}
	*k = append(*k, one)
}

// size returns the number of bytes.
func (k keptBytes) size() (n int) {
	for i := range k {
		n += len(k[i].Bytes)
	}
	return n
}

// check holds a record to the bounds.
func (k keptBytes) check() error {
	if len(k) > maxKept {
		return unusable("number of modules", len(k))
	}
	for i := range k {
		if len(k[i].Bytes) > bridge.MaxState {
			return unusable("size of what a module keeps", len(k[i].Bytes))
		}
	}
	return nil
}
