package proxy

import "tidegate/codec"

// locals are one Relay's instances of the settings' protocols. The connections of an instance share memory with each
// other only.
type locals map[codec.PerLoop]codec.Protocol

// of returns the Relay's own instance of a protocol.
func (l locals) of(p codec.Protocol) codec.Protocol {
	shared, ok := p.(codec.PerLoop)
	if !ok {
		return p
	}
	if l[shared] == nil {
		l[shared] = shared.ForLoop()
	}
	return l[shared]
}
