package proxy

import "tidegate/codec"

// locals are the protocols of the settings as one Relay has them: its connections share memory with each other, and
// with nobody else's.
type locals map[codec.PerLoop]codec.Protocol

// of is the Relay's own of a protocol.
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
