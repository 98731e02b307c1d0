package config

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/cidr"
	"tidegate/internal/each"
	"tidegate/internal/units"
)

// Address is an address and port. Written as ip:first-last, it has every port from the first to the last.
type Address struct {
	netip.AddrPort        // with the first port
	Last           uint16 // 0 if there is only one port
}

// AddressOf returns an address with one port.
func AddressOf(addr netip.AddrPort) Address { return Address{AddrPort: addr} }

// UnmarshalText reads the format of String. Without an IP address before the colon it is a port of all addresses.
func (a *Address) UnmarshalText(text []byte) error {
	*a = Address{}
	first, last, two := cutLast(string(text))
	if strings.HasPrefix(first, ":") && !strings.Contains(first[1:], ":") {
		first = "[::]" + first
	}
	if err := a.AddrPort.UnmarshalText([]byte(first)); err != nil || !two {
		return err
	}
	n, err := strconv.ParseUint(last, 10, 16)
	if err != nil || a.Port() == 0 || uint16(n) <= a.Port() {
		return errUnit
	}
	a.Last = uint16(n)
	return nil
}

// cutLast separates the last port. A "-" in an IPv6 zone does not count.
func cutLast(text string) (first, last string, two bool) {
	dash := strings.LastIndexByte(text, '-')
	if dash < strings.LastIndexByte(text, ':') {
		dash = -1
	}
	if dash < 0 {
		return text, "", false
	}
	return text[:dash], text[dash+1:], true
}

// String returns the format that UnmarshalText reads.
func (a Address) String() string {
	if a.Last == 0 {
		return a.AddrPort.String()
	}
	return a.AddrPort.String() + "-" + strconv.Itoa(int(a.Last))
}

// Ports returns the number of ports.
func (a Address) Ports() int {
	if a.Last == 0 {
		return 1
	}
	return int(a.Last-a.Port()) + 1
}

// Nth returns the address with the n-th port, from 0.
func (a Address) Nth(n int) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), a.Port()+uint16(n))
}

// maxPorts is the largest number of ports of one address. Each port is a socket in every loop.
const maxPorts = 1000

// overlap reports whether two listening addresses would receive the same datagrams. Port 0 stands for any free port
// and for a missing address, so it never does.
func overlap(a, b Address) bool {
	if a.Port() == 0 || b.Port() == 0 || a.Port() > max(b.Port(), b.Last) || b.Port() > max(a.Port(), a.Last) {
		return false
	}
	one, other := a.Addr().Unmap(), b.Addr().Unmap()
	return one == other || covers(one, other) || covers(other, one)
}

// covers reports whether a is a wildcard address that includes b. The IPv6 wildcard includes IPv4.
func covers(a, b netip.Addr) bool {
	return a.IsUnspecified() && (a.Is6() || b.Is4())
}

// single reports whether an address can belong to one machine.
func single(a netip.Addr) bool {
	a = a.Unmap()
	return !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// reaches reports whether datagrams to server certainly arrive at a listening address of this process.
func reaches(server, listener Address) bool {
	to := server.Addr().Unmap()
	return overlap(server, listener) && (to == listener.Addr().Unmap() || to.IsLoopback())
}

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
	return each.Of(list, Prefix.Prefix)
}

// choice is a type that accepts only a few words.
type choice interface{ Choices() []string }

func choices[T ~string](values ...T) []string {
	return each.Of(values, func(v T) string { return string(v) })
}

// enumeration is a type of small numbers with words. The word of a value that cannot be stated is empty.
type enumeration interface {
	~uint8
	Names() []string
}

// Word is a word of an enumeration, or empty if none is stated.
type Word[E enumeration] string

// WordOf returns the word of a value.
func WordOf[E enumeration](value E) Word[E] { return Word[E](value.Names()[value]) }

// Choices lists the words of the configuration.
func (Word[E]) Choices() []string {
	return slices.DeleteFunc(slices.Clone(E(0).Names()), func(name string) bool { return name == "" })
}

// Is reports whether the word is that of a value.
func (w Word[E]) Is(value E) bool { return w == WordOf(value) }

// Value returns the value of the word, which has been checked. Without a word it is 0.
func (w Word[E]) Value() E { return E(max(slices.Index(E(0).Names(), string(w)), 0)) }

// errUnit says that a text does not have the form of its type. The resulting fault names the right form.
var errUnit = errors.New("not of the right form")

type (
	// Duration is a time with its unit, as in protocol options.
	Duration = units.Duration
	// Size is a number of bytes with its unit.
	Size = units.Size
	// Key is 64 hexadecimal digits, or "file:" and the path of a file with them. Validation replaces the path by the
	// content.
	Key = units.Key
)

// Units of Size.
const (
	KiB = units.KiB
	MiB = units.MiB
	GiB = units.GiB
)

// Range is a number from 0 to 65535, or two numbers with a "-" between them, both included: "7", "100-199",
// "0x80-0xff".
type Range string

var rangeType = reflect.TypeFor[Range]()

// UnmarshalText reads a range.
func (r *Range) UnmarshalText(text []byte) error {
	*r = Range(text)
	if _, _, ok := r.parse(); !ok {
		return errUnit
	}
	return nil
}

// Bounds returns the lowest and the highest number of the range.
func (r Range) Bounds() (low, high uint16) {
	low, high, _ = r.parse() // UnmarshalText has checked it
	return low, high
}

func (r Range) parse() (low, high uint16, ok bool) {
	first, last, two := strings.Cut(string(r), "-")
	if !two {
		last = first
	}
	low, errLow := parseNumber(first)
	high, errHigh := parseNumber(last)
	return low, high, errLow == nil && errHigh == nil && low <= high
}

func parseNumber(text string) (uint16, error) {
	base := 10
	if digits, hex := strings.CutPrefix(text, "0x"); hex {
		text, base = digits, 16
	}
	n, err := strconv.ParseUint(text, base, 16)
	return uint16(n), err
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }
