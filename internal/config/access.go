package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Access is a rule about the addresses of players.
type Access struct {
	Name      string        `toml:"name"`
	Verdict   AccessVerdict `toml:"verdict"`
	Listeners []string      `toml:"listeners"` // names; empty: all
	Prefixes  []Prefix      `toml:"prefixes"`
	Files     []string      `toml:"files"`     // lists of prefixes
	Countries []string      `toml:"countries"` // ISO 3166 codes
	Networks  []int64       `toml:"networks"`  // numbers of autonomous systems
}

// AccessVerdict is the treatment of players that a source rule matches.
type AccessVerdict string

// Verdicts about sources.
const (
	AccessAllow   AccessVerdict = "allow"   // admitted; later rules are skipped
	AccessDrop    AccessVerdict = "drop"    // ignored without an answer
	AccessObserve AccessVerdict = "observe" // counted; later rules still apply
)

// Choices lists the words of the configuration.
func (AccessVerdict) Choices() []string { return choices(AccessAllow, AccessDrop, AccessObserve) }

// Geo names the operator's MaxMind databases.
type Geo struct {
	CountryFile string `toml:"country_file"` // empty: none
	NetworkFile string `toml:"network_file"` // empty: none
}

// Path returns the path of a file that the configuration names. A relative path starts at the folder of the
// configuration file.
func (c *Config) Path(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(c.places.name()), file)
}

// maxASN is the largest autonomous system number.
const maxASN = 1<<32 - 1

func (v *validator) access() {
	v.names("access", namesOf(v.Access, func(a Access) string { return a.Name }))
	v.countRules("access", len(v.Access))
	for i, a := range v.Access {
		path := item("access", i)
		if a.Verdict == "" {
			v.fault(child(path, "verdict"), nil, either(a.Verdict.Choices()))
		}
		if len(a.Prefixes)+len(a.Files)+len(a.Countries)+len(a.Networks) == 0 {
			v.fault(child(path, "prefixes"), nil,
				`at least one of prefixes, files, countries and networks; ["0.0.0.0/0", "::/0"] matches every address`)
		}
		v.scope(path, a.Listeners)
		for j, file := range a.Files {
			v.file(item(child(path, "files"), j), file, "the path of a file with a prefix on each line")
		}
		v.accessDatabases(path, a)
	}
}

// file reports a file that cannot be read.
func (v *validator) file(key, file, want string) {
	info, err := os.Stat(v.Path(file))
	switch {
	case file == "":
		v.fault(key, file, want)
	case errors.Is(err, fs.ErrNotExist):
		v.fault(key, file, want+"; "+v.Path(file)+" does not exist")
	case err != nil:
		v.fault(key, file, want+"; "+err.Error())
	case info.IsDir():
		v.fault(key, file, want+"; "+v.Path(file)+" is a folder")
	}
}

// geo checks that the databases exist.
func (v *validator) geo() {
	if v.Geo.CountryFile != "" {
		v.file("geo.country_file", v.Geo.CountryFile, "the path of a MaxMind database of countries")
	}
	if v.Geo.NetworkFile != "" {
		v.file("geo.network_file", v.Geo.NetworkFile, "the path of a MaxMind database of networks (ASN)")
	}
}

// accessDatabases checks countries and networks, which need a database each.
func (v *validator) accessDatabases(path string, a Access) {
	for j, code := range a.Countries {
		if !isCountry(code) {
			v.fault(item(child(path, "countries"), j), code, `a country's code of two capital letters, as "DE" (ISO 3166)`)
		}
	}
	if len(a.Countries) > 0 && v.Geo.CountryFile == "" {
		v.fault("geo.country_file", nil, "the path of a MaxMind database of countries; "+v.where(path)+" needs it")
	}
	for j, number := range a.Networks {
		within(v.report, item(child(path, "networks"), j), number, 1, maxASN)
	}
	if len(a.Networks) > 0 && v.Geo.NetworkFile == "" {
		v.fault("geo.network_file", nil, "the path of a MaxMind database of networks (ASN); "+v.where(path)+" needs it")
	}
}

// countryCodes are the two-letter codes of ISO 3166-1, and XK for Kosovo, which databases of places use as well.
const countryCodes = "" +
	"AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ " +
	"CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO " +
	"FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE " +
	"JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO " +
	"MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW " +
	"PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM " +
	"TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW "

// isCountry reports whether a code is in countryCodes.
func isCountry(code string) bool {
	return len(code) == 2 && !strings.Contains(code, " ") && strings.Contains(countryCodes, code+" ")
}
