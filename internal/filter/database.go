package filter

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"
)

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
	p := Place{Country: r.Country.Code, Network: r.Number, Holder: r.Holder}
	if p.Country == "" {
		p.Country = r.Registered.Code // networks without one location, such as satellites
	}
	return p, nil
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
