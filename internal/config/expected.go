package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

var (
	addressType  = reflect.TypeFor[Address]()
	serverType   = reflect.TypeFor[Server]()
	discoverType = reflect.TypeFor[Discover]()
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
	amountType   = reflect.TypeFor[Amount]()
	failureType  = reflect.TypeFor[Failure]()
	formType     = reflect.TypeFor[Form]()
)

// forms describe the types of the configuration that have a form of their own.
var forms = map[reflect.Type]string{
	addressType:  `ip:port, for example "0.0.0.0:7777"`,
	serverType:   `ip:port, for example "10.0.0.5:7777"`,
	discoverType: `host:port, the name of SRV records ("_game._udp.example.com"), or "file:" and a path`,
	durationType: `a duration in quotes, with its unit (ms, s, m, h or d), for example "10s"`,
	sourceType:   `an address, for example "10.0.0.5", a prefix, for example "127.64.0.0/10", "players" or "shared"`,
	prefixType:   `a prefix, for example "192.0.2.0/24", or an address`,
	ipType:       `an IP address, for example "10.0.0.5"`,
	rangeType:    `a number from 0 to 65535 or a range in quotes, for example "7", "100-199" or "0x86"`,
	formType:     `an ID in quotes, for example "7" or "100-199", or bytes, for example "0x86 7:u16le"`,
	sizeType:     `a size in quotes, whole and with its unit (B, KiB, MiB or GiB), for example "2MiB"`,
	amountType:   `a whole number, or a size in quotes with its unit (B, KiB, MiB or GiB), for example "2MiB"`,
}

// expected describes the form of a type's values, as the remedy of a fault.
func expected(t reflect.Type) string {
	if form, ok := forms[t]; ok {
		return form
	}
	if c, ok := reflect.Zero(t).Interface().(choice); ok {
		return either(c.Choices())
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text in quotes"
	case reflect.Uint8:
		return fmt.Sprintf("a whole number from 0 to %d", math.MaxUint8)
	case reflect.Uint16:
		return fmt.Sprintf("a whole number from 0 to %d", math.MaxUint16)
	case reflect.Struct, reflect.Map:
		return "a table: a [header] and keys below it"
	case reflect.Slice:
		if isTable(t.Elem()) {
			return "a list of tables: a [[header]] in two brackets for each"
		}
		return "a list in brackets, each " + expected(t.Elem())
	default:
		return "a whole number"
	}
}

// isTable reports whether a type is written only as a table.
func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != addressType && t != serverType && t != discoverType
}

// expectedDuration returns the remedy for a text that is not a duration.
func expectedDuration(text string) string {
	const example = `, for example "10s"`
	text, negative := strings.CutPrefix(text, "-")
	switch {
	case !likeDuration.MatchString(text):
		return expected(durationType)
	case negative:
		return "a duration that is not negative" + example
	}
	return "a shorter duration" + example
}

// likeDuration matches a text that is a duration or too long for one.
var likeDuration = regexp.MustCompile(`^\+?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d))+$`)

// expectedAddress returns the remedy for a text that is not an address of type t.
func expectedAddress(t reflect.Type, text string) string {
	want := expected(t)
	host, port, err := net.SplitHostPort(text)
	if colon := strings.LastIndexByte(text, ':'); err != nil && colon > 0 {
		if ip, err := netip.ParseAddr(text[:colon]); err == nil && ip.Is6() {
			return fmt.Sprintf("an IPv6 address in brackets: %q", "["+text[:colon]+"]"+text[colon:])
		}
	}
	if err != nil || host == "" {
		return want
	}
	if n, err := strconv.Atoi(port); err == nil && n > math.MaxUint16 {
		want += fmt.Sprintf("; the largest port is %d", math.MaxUint16)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		want += "; host names are looked up only by discover of [[upstream]]"
	}
	return want
}

// expectedPrefix returns the remedy for a text that is not a prefix.
func expectedPrefix(text string) string {
	want := expected(prefixType)
	if p, err := netip.ParsePrefix(text); err == nil && p != p.Masked() {
		want = `no bits set beyond the prefix's length: "` + p.Masked().String() + `", or another length`
	}
	return want
}
