package config

import (
	"net/netip"
	"reflect"

	"tidegate/internal/cidr"
)

// Prefix is a network, or a single address, as the user wrote it.
type Prefix string

var prefixType = reflect.TypeFor[Prefix]()

// UnmarshalText accepts the formats of package cidr.
func (p *Prefix) UnmarshalText(text []byte) error {
	_, err := cidr.Parse(string(text))
	*p = Prefix(text)
	return err
}

// Prefix returns the network. A single address becomes a network with one address.
func (p Prefix) Prefix() netip.Prefix {
	parsed, _ := cidr.Parse(string(p)) // UnmarshalText has checked it
	return parsed
}

// Networks returns the prefixes of a list.
func Networks(list []Prefix) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, n := range list {
		all[i] = n.Prefix()
	}
	return all
}
