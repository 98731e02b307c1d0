// Package cidr parses networks as people write them: a single one, or a list in a file. Start with Read.
package cidr

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Bounds of a list.
const (
	MaxList = 1_000_000
	maxLine = 1024 // bytes

	maxFaults = 20 // that Read reports
)

// Parse parses a prefix, or an address as a prefix of full length. Bits beyond the prefix's length must be zero: with a
// slip such as 10.0.0.1/8 a rule would match far more addresses than intended.
func Parse(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix", text)
		}
		if addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q has a zone", text)
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix", text)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has bits beyond its length; did you mean %s?", text, p.Masked())
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, nil
}

// Read reads a list with one prefix or address per line. A comment starts with # or ; and ends with the line. The error
// names each bad line, up to a bound.
func Read(r io.Reader) ([]netip.Prefix, error) {
	var list []netip.Prefix
	var faults []error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 1
	for ; lines.Scan(); n++ {
		text := lines.Bytes()
		if at := bytes.IndexAny(text, "#;"); at >= 0 {
			text = text[:at]
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 {
			continue
		}
		p, err := Parse(string(text))
		if err != nil {
			if faults = append(faults, fmt.Errorf("line %d: %w", n, err)); len(faults) == maxFaults {
				return nil, errors.Join(append(faults, errors.New("perhaps more"))...)
			}
			continue
		}
		if len(list) == MaxList {
			return nil, fmt.Errorf("line %d: more than %d prefixes", n, MaxList)
		}
		list = append(list, p)
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("line %d: %w", n, err))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return list, nil
}
