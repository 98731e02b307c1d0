package filter

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"
)

// Place is where an address is.
type Place struct {
	Country string // ISO 3166 code of two letters; empty if unknown
	Network uint32 // number of the autonomous system; 0 if unknown
	Holder  string // who has that system
}

// Database is an operator's MaxMind file, in memory: a file that is replaced or cut while it is in use harms nobody. It
// is safe for concurrent use.
type Database struct{ reader *maxminddb.Reader }

var errDatabase = errors.New("not a MaxMind database of countries or networks")

// NewDatabase reads a database from the bytes of an .mmdb file, which are its own from then on. Countries are those of
// GeoLite2 or GeoIP2 Country and City, networks those of ASN and ISP; other vendors' files of the same fields do as well.
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
		break // one record tells the form; the rest is read by records
	}
	return d, nil
}

// record has the fields of interest of all of MaxMind's databases.
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
		p.Country = r.Registered.Code // of networks without one place, as satellites
	}
	return p, nil
}

// place is what the database says of an address; nothing for a nil Database.
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
		return Place{} // a damaged record says nothing
	}
	return p
}

// records finds the records to which mask gives rules. Many networks share a record, so that these are few, and looking
// at an address's record needs neither its text nor an allocation.
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
