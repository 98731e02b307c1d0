//go:build !linux

package doctor

import "net/netip"

// Without Linux, these checks have no answer.

func descriptorLimit() uint64 { return 0 }

func pathMTU(netip.AddrPort) (int, error) { return 0, errUnsupported }

func clockOff() (off, known bool) { return false, false }
