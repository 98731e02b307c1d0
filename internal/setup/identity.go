package setup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"tidegate/codec/nethernet"
	"tidegate/internal/config"
	"tidegate/internal/each"
	"tidegate/internal/regular"
	"tidegate/internal/signalling"
)

// Identity returns how a listener answers joins of NetherNet itself, without the parts that only a running proxy has.
func Identity(c *config.Config, l *config.Listener) (*signalling.Own, error) {
	own := &signalling.Own{Identity: map[config.Identity]signalling.IdentityCheck{
		config.IdentityProof: signalling.IdentityProof, config.IdentityMojang: signalling.IdentityIssued,
		config.IdentityNone: signalling.IdentityNone,
	}[l.Identity]}
	var err error
	if own.Key, err = IdentityKey(c, l.IdentityKey); err != nil {
		return nil, err
	}
	if l.IdentityIssuer == "" {
		return own, nil
	}
	text, err := regular.ReadFile(c.Path(l.IdentityIssuer))
	if err != nil {
		return nil, fmt.Errorf("read the issuer's keys: %w", err)
	}
	if own.Issuer, err = nethernet.ParseKeySet(text); err != nil {
		return nil, fmt.Errorf("use the issuer's keys %s: %w", l.IdentityIssuer, err)
	}
	return own, nil
}

var errNoKey = errors.New("want a private key of P-384 in PEM")

// IdentityKey reads the key of an identity from a file, or makes one if there is no file.
func IdentityKey(c *config.Config, file string) (*ecdsa.PrivateKey, error) {
	if file == "" {
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	}
	text, err := regular.ReadFile(c.Path(file))
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, fmt.Errorf("use the key %s: %w", file, errNoKey)
		}
		if key := parseKey(block.Bytes); key != nil {
			return key, nil
		}
	}
}

// parseKey reads a private key of P-384, or returns nil.
func parseKey(der []byte) *ecdsa.PrivateKey {
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil
		}
		key, _ = parsed.(*ecdsa.PrivateKey)
	}
	if key == nil || key.Curve != elliptic.P384() {
		return nil
	}
	return key
}

// Told says which addresses NetherNet clients of a listener are told, by a machine with its own addresses. A doubt is
// why players may not reach them; empty: there is none.
func Told(l *config.Listener, own []netip.Addr) (told, doubt string) {
	all := each.Of(l.PublicAddresses, config.IP.Addr)
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
	if len(all) > 0 && !slices.ContainsFunc(all, func(a netip.Addr) bool {
		return !a.IsPrivate() && !carrierNAT.Contains(a) && !a.IsLinkLocalUnicast()
	}) {
		doubt = l.Name + ": players beyond NAT, or outside a container, cannot reach a private address (public_addresses)"
	}
	return told, doubt
}

var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")
