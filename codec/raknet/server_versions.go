package raknet

import (
	"maps"
	"net/netip"
	"sync/atomic"
)

// maxServerVersions bounds how many servers' versions are remembered. When there are more, all are learnt anew.
const maxServerVersions = 1024

// serverVersions are the protocol versions that servers named when they refused ours: the next connections ask with those.
// go-raknet's servers do not listen to an address for 10 s after a first request of another version.
type serverVersions struct {
	of atomic.Pointer[map[netip.AddrPort]uint8] // what it points to is never changed
}

// ask returns the version to ask a server with: the one it named, or else ours.
func (v *serverVersions) ask(server netip.AddrPort, ours uint8) uint8 {
	if known := v.of.Load(); known != nil {
		if version, ok := (*known)[server]; ok {
			return version
		}
	}
	return ours
}

// learn notes the version that a server named. Of two that are learnt at once, one may have to be learnt again.
func (v *serverVersions) learn(server netip.AddrPort, version uint8) {
	next := make(map[netip.AddrPort]uint8)
	if known := v.of.Load(); known != nil && len(*known) < maxServerVersions {
		maps.Copy(next, *known)
	}
	next[server] = version
	v.of.Store(&next)
}
