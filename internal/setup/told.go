package setup

import (
	"fmt"
	"net/netip"
	"slices"

	"tidegate/internal/config"
)

// Told says which addresses NetherNet clients of a listener are told, by a machine with its own addresses. A doubt is
// why players may not reach them; empty: there is none.
func Told(l *config.Listener, own []netip.Addr) (told, doubt string) {
	var all []netip.Addr
	for _, a := range l.PublicAddresses {
		all = append(all, a.Addr())
	}
	told = fmt.Sprint(all)
	at := l.Address.Addr()
	switch {
	case len(all) > 0:
	case !at.IsUnspecified():
		all = append(all, at)
		told = fmt.Sprint(all)
	default:
		all = slices.DeleteFunc(slices.Clone(own), func(a netip.Addr) bool {
			return a.IsLoopback() || a.IsLinkLocalUnicast() || at.Is4() && !a.Is4()
		})
		told = fmt.Sprint("the one that they have reached, here of ", all)
	}
	if len(all) > 0 && !slices.ContainsFunc(all, isPublic) {
		doubt = l.Name + ": players beyond NAT, or outside a container, cannot reach a private address (public_addresses)"
	}
	return told, doubt
}

var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

func isPublic(a netip.Addr) bool {
	return !a.IsPrivate() && !carrierNAT.Contains(a) && !a.IsLinkLocalUnicast()
}
