package filter

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	"github.com/oschwald/maxminddb-golang/v2"
	"tidegate/ratelimit"
)

// Source is a rule about the sources of new clients. It matches an address in any of its prefixes, countries or
// networks.
type Source struct {
	Name      string
	Listeners []string          // listener names; empty: all
	Prefixes  []netip.Prefix    // none is IPv4-mapped IPv6
	Countries []string          // ISO 3166 codes of two capital letters
	Networks  []uint32          // numbers of autonomous systems
	Verdict   ratelimit.Verdict // Pass, Observe or Drop; a new client has no session to end
}

// sources are the compiled source rules. However many rules there are, an address takes one lookup in the prefixes and
// one in each database.
type sources struct {
	names     []string
	verdicts  []ratelimit.Verdict
	listeners [][]string
	scoped    Mask // rules that apply to some listeners only
	observing Mask

	prefixes           bart.Table[Mask] // each prefix with its rules and those of the wider prefixes
	countries, numbers located
	byCountry, byASN   Mask // rules that need the database
}

// located are the rules that use one database.
type located struct {
	database *Database
	rules    map[uintptr]Mask // by record
}

func (s *sources) compile(r *Rules) error {
	countries, networks := make(map[string]Mask), make(map[uint32]Mask)
	for i := range r.Sources {
		rule := &r.Sources[i]
		bit := Mask(1) << i
		s.names = append(s.names, rule.Name)
		s.verdicts = append(s.verdicts, rule.Verdict)
		s.listeners = append(s.listeners, rule.Listeners)
		if rule.Verdict == ratelimit.Observe {
			s.observing |= bit
		}
		if len(rule.Listeners) > 0 {
			s.scoped |= bit
		}
		for _, country := range rule.Countries {
			countries[country] |= bit
			s.byCountry |= bit
		}
		for _, network := range rule.Networks {
			networks[network] |= bit
			s.byASN |= bit
		}
	}
	s.addPrefixes(r.Sources)
	s.countries.database, s.numbers.database = r.Countries, r.Networks
	if s.byCountry != 0 {
		if r.Countries == nil {
			return fmt.Errorf("rule %s: no database of countries", s.names[first(s.byCountry)])
		}
		s.countries.rules = r.Countries.records(func(p *Place) Mask { return countries[p.Country] })
	}
	if s.byASN != 0 {
		if r.Networks == nil {
			return fmt.Errorf("rule %s: no database of networks", s.names[first(s.byASN)])
		}
		s.numbers.rules = r.Networks.records(func(p *Place) Mask { return networks[p.Network] })
	}
	return nil
}

func first(m Mask) (index int) {
	for i := range m.All {
		return i
	}
	return -1
}

// addPrefixes gives each prefix its own rules and those of all wider prefixes, so that the longest match has them all.
func (s *sources) addPrefixes(rules []Source) {
	type ruled struct {
		prefix netip.Prefix
		rule   Mask
	}
	var all []ruled
	for i := range rules {
		for _, p := range rules[i].Prefixes {
			all = append(all, ruled{p, 1 << i})
		}
	}
	slices.SortStableFunc(all, func(a, b ruled) int { return cmp.Compare(a.prefix.Bits(), b.prefix.Bits()) })
	for _, p := range all { // widest first
		_, around, _ := s.prefixes.LookupPrefixLPM(p.prefix)
		s.prefixes.Insert(p.prefix, around|p.rule)
	}
}

func (s *sources) judge(listener string, from netip.Addr) Match {
	from = from.Unmap().WithZone("")
	matched, _ := s.prefixes.Lookup(from)
	matched = s.here(listener, matched)
	if s.byCountry&s.open(matched) != 0 {
		matched |= s.here(listener, s.countries.of(from))
	}
	if s.byASN&s.open(matched) != 0 {
		matched |= s.here(listener, s.numbers.of(from))
	}
	return decide(matched, s.observing, func(i int) ratelimit.Verdict { return s.verdicts[i] })
}

// here removes the rules that do not apply to a listener.
func (s *sources) here(listener string, matched Mask) Mask {
	for i := range (matched & s.scoped).All {
		if !slices.Contains(s.listeners[i], listener) {
			matched &^= 1 << i
		}
	}
	return matched
}

// open returns the rules that can still matter: those before the deciding one that have not matched yet.
func (s *sources) open(matched Mask) Mask {
	before := ^Mask(0)
	if deciding := matched &^ s.observing; deciding != 0 {
		before = below(first(deciding))
	}
	return before &^ matched
}

func (s *sources) place(addr netip.Addr) Place {
	addr = addr.Unmap().WithZone("")
	place := s.countries.database.place(addr)
	network := s.numbers.database.place(addr)
	place.Network, place.Holder = network.Network, network.Holder
	return place
}

func (l *located) of(addr netip.Addr) Mask {
	found := l.database.reader.Lookup(addr)
	if !found.Found() {
		return 0
	}
	return l.rules[found.Offset()]
}

// Place is the location of an address.
type Place struct {
	Country string // ISO 3166 code of two letters; empty: unknown
	Network uint32 // number of the autonomous system; 0: unknown
	Holder  string // organization that runs the autonomous system
}

// Database is a MaxMind file in memory, so that replacing or truncating the file does no harm. It is safe for
// concurrent use.
type Database struct{ reader *maxminddb.Reader }

var errDatabase = errors.New("not a MaxMind database of countries or networks")

// NewDatabase parses the bytes of an .mmdb file and keeps them. Countries come from GeoLite2 or GeoIP2 Country and
// City, networks from ASN and ISP. Files of other vendors with the same fields work too.
func NewDatabase(file []byte) (*Database, error) {
	reader, err := maxminddb.OpenBytes(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDatabase, err)
	}
	d := &Database{reader}
	for result := range reader.Networks() {
		if _, err := decode(result); err != nil {
			return nil, fmt.Errorf("%w: %w", errDatabase, err)
		}
		break // one record shows the form; the others are decoded when needed
	}
	return d, nil
}

// record has the fields that we use of all MaxMind databases.
type record struct {
	Country struct {
		Code string `maxminddb:"iso_code"`
	} `maxminddb:"country"`
	Registered struct {
		Code string `maxminddb:"iso_code"`
	} `maxminddb:"registered_country"`
	Number uint32 `maxminddb:"autonomous_system_number"`
	Holder string `maxminddb:"autonomous_system_organization"`
}

func decode(result maxminddb.Result) (Place, error) {
	var r record
	if err := result.Decode(&r); err != nil {
		return Place{}, err
	}
	country := cmp.Or(r.Country.Code, r.Registered.Code) // some networks have no one location, such as satellites
	return Place{Country: country, Network: r.Number, Holder: r.Holder}, nil
}

// place returns the database's entry for an address. A nil Database returns the zero Place.
func (d *Database) place(addr netip.Addr) Place {
	if d == nil {
		return Place{}
	}
	found := d.reader.Lookup(addr)
	if !found.Found() {
		return Place{}
	}
	p, err := decode(found)
	if err != nil {
		return Place{} // a damaged record counts as missing
	}
	return p
}

// records returns the records that have rules, by the Mask that mask returns. Many networks share a record, so that the
// map is small. Looking up an address's record needs neither its text nor an allocation.
func (d *Database) records(mask func(*Place) Mask) map[uintptr]Mask {
	rules := make(map[uintptr]Mask)
	seen := make(map[uintptr]bool)
	for result := range d.reader.Networks() {
		if !result.Found() || seen[result.Offset()] {
			continue
		}
		seen[result.Offset()] = true
		if p, err := decode(result); err == nil {
			if m := mask(&p); m != 0 {
				rules[result.Offset()] = m
			}
		}
	}
	return rules
}
