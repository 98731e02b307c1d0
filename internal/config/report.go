package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/each"
	"tidegate/internal/words"
)

// report collects the faults and warnings of one configuration, at most one fault for each key. Consequences of a
// fault are not reported.
type report struct {
	source     *index
	faults     Faults
	warnings   []Fault
	suppressed map[string]bool // keys with a fault, not to be reported again
}

func newReport(source *index) *report {
	return &report{source: source, suppressed: make(map[string]bool)}
}

// suppress hides later faults of a key.
func (r *report) suppress(key string) { r.suppressed[key] = true }

// fault reports the right form of a key with a wrong value.
func (r *report) fault(key string, value any, want string) {
	if process := processKey(key); process != "" && !r.source.has(key) && r.suppressed[process] {
		return
	}
	if !r.suppressed[key] {
		r.suppress(key)
		r.faults = append(r.faults, r.describe(r.source.find(key).value, key, value, want))
	}
}

// unknown reports a key that does not exist.
func (r *report) unknown(key string, value any, want string) {
	r.faults = append(r.faults, r.describe(r.source.find(key).key, key, value, want))
}

// warn reports a setting that works but is probably a mistake.
func (r *report) warn(key string, value any, want string) {
	r.warnings = append(r.warnings, r.describe(r.source.find(key).value, key, value, want))
}

func (r *report) describe(at position, key string, value any, want string) Fault {
	f := Fault{File: r.source.name(), Line: at.line, Column: at.column, Key: key, Want: want}
	switch {
	case !r.source.has(key) && isZero(value):
	case holdsSecret(key):
		f.Value = quote(hidden)
	case processKey(key) != "" && !r.source.has(key) && r.source.has(processKey(key)):
		f.Value = render(value) + " (" + processKey(key) + ")"
	case r.source != nil && !r.source.has(key):
		f.Value = render(value) + " (default)"
	default:
		f.Value = render(value)
	}
	return f
}

// secretNames are parts of the names of keys whose values are secrets.
var secretNames = []string{"secret", "token", "password"}

// holdsSecret reports whether a key's value may be a secret, also where the key is misspelt or in the wrong place.
func holdsSecret(key string) bool {
	if key == "admin" || strings.HasPrefix(key, "admin.") && key != "admin.listen" {
		return true
	}
	name := strings.ToLower(key[strings.LastIndexByte(key, '.')+1:])
	name, _, _ = strings.Cut(name, "[") // an element of a list
	for _, secret := range secretNames {
		for part := range strings.SplitSeq(name, "_") {
			misspelt := part != "" && part[0] == secret[0] && words.Distance(part, secret) <= 2
			if misspelt || strings.Contains(part, secret) {
				return true
			}
		}
	}
	return false
}

// result returns the faults as an error, or the warnings if there are no faults. Both are in the order of the file.
// Warnings are omitted beside faults, because most would be consequences.
func (r *report) result() (warnings []Fault, err error) {
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, inFileOrder)
		return nil, r.faults
	}
	slices.SortStableFunc(r.warnings, inFileOrder)
	return r.warnings, nil
}

func inFileOrder(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// within reports a value outside of low to high, both included.
func within[T cmp.Ordered](r *report, key string, value, low, high T) {
	if value < low || value > high {
		r.fault(key, value, render(low)+" to "+render(high))
	}
}

// unique reports a list with duplicates, or an empty one if it has a remedy, atLeastOne.
func unique[T comparable](r *report, key string, list []T, atLeastOne string) {
	if len(list) == 0 && atLeastOne != "" {
		r.fault(key, list, atLeastOne)
	}
	for i, element := range list {
		if first := slices.Index(list, element); first < i && !r.suppressed[item(key, first)] {
			r.fault(item(key, i), element, "each only once; "+item(key, first)+" is the same")
		}
	}
}

// hidden stands for a secret in all output.
const hidden = "(hidden)"

// Fault is one mistake in a configuration file, or a warning.
type Fault struct {
	File   string // as given to Load or Parse
	Line   int    // from 1; 0 if the configuration does not come from a file
	Column int    // from 1, in bytes
	Key    string // path of the key, for example listener[0].address; empty if the file is not TOML
	Value  string // the wrong value as TOML; empty if there is none
	Want   string // remedy: the form of a right value
}

// Error returns the fault in one line: file:line:column: key = value: want remedy.
func (f Fault) Error() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	}
	if f.Key != "" {
		b.WriteString(f.Key)
		if f.Value != "" {
			b.WriteString(" = " + f.Value)
		}
		b.WriteString(": ")
	}
	b.WriteString("want " + f.Want)
	return b.String()
}

// Faults are all mistakes in one file, in the order of the file.
type Faults []Fault

// Error returns one fault per line.
func (f Faults) Error() string {
	return strings.Join(each.Of(f, Fault.Error), "\n")
}

// Unwrap returns the faults as errors.
func (f Faults) Unwrap() []error {
	return each.Of(f, func(one Fault) error { return one })
}

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
