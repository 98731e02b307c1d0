package config

import (
	"net/netip"
	"reflect"

	"tidegate/internal/cidr"
)

// Prefix is a network, or a single address, as it was written.
type Prefix string

var prefixType = reflect.TypeFor[Prefix]()

// UnmarshalText reads what package prefixes does.
func (p *Prefix) UnmarshalText(text []byte) error {
	_, err := cidr.Parse(string(text))
	*p = Prefix(text)
	return err
}

// Prefix is the network itself; a single address is the network of it alone.
func (p Prefix) Prefix() netip.Prefix {
	parsed, _ := cidr.Parse(string(p)) // which it was when it was read
	return parsed
}

// wantedPrefix is the remedy for a text that is no prefix.
func wantedPrefix(text string) string {
	want := wanted(prefixType)
	if p, err := netip.ParsePrefix(text); err == nil && p != p.Masked() {
		want = `no bits set beyond the prefix's length: "` + p.Masked().String() + `", or another length`
	}
	return want
}
