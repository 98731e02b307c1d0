package config

import "fmt"

// Bans configures the ban file and the duration of bans that Tidegate itself imposes. Operators may impose longer ones.
type Bans struct {
	File    string   `toml:"file"`                       // relative to the configuration's folder; empty: none
	First   Duration `toml:"first" min:"1s" max:"8784h"` // each further ban of a network is twice as long
	Longest Duration `toml:"longest" min:"1s" max:"8784h"`
	Memory  Duration `toml:"memory" min:"0s" max:"8784h"` // after its end, a ban still counts for this long
	IPv4    int      `toml:"ipv4" min:"16" max:"32"`      // bits of the banned network of an address
	IPv6    int      `toml:"ipv6" min:"32" max:"128"`
}

func defaultBans() Bans {
	return Bans{
		File: "bans.jsonl", First: seconds(10 * 60), Longest: seconds(24 * 3600), Memory: seconds(24 * 3600),
		IPv4: 32, IPv6: 64,
	}
}

// LoadBans reads only the [bans] table of a configuration file. So commands can ban while the rest of the file is
// being edited. The file in the result is a path that a command can open.
func LoadBans(path string) (Bans, error) {
	c, err := loadTable(path, "bans", "Bans", (*validator).bans)
	if err != nil {
		return Bans{}, err
	}
	c.Bans.File = c.Path(c.Bans.File)
	return c.Bans, nil
}

func (v *validator) bans() {
	b := v.Bans
	if b.Longest < b.First {
		v.fault("bans.longest", b.Longest, fmt.Sprintf("not less than bans.first, which is %s", b.First))
	}
}
