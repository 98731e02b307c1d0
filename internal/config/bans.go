package config

import "fmt"

// Bans configures the ban file and the duration of bans that Tidegate itself imposes.
type Bans struct {
	File    string   `toml:"file"`  // relative to the configuration's folder; empty: none
	First   Duration `toml:"first"` // each further ban of a network is twice as long
	Longest Duration `toml:"longest"`
	Memory  Duration `toml:"memory"` // after its end, a ban still counts for this long
	IPv4    int      `toml:"ipv4"`   // bits of the banned network of an address
	IPv6    int      `toml:"ipv6"`
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

// longestBan is about a year. Operators may impose longer bans.
const longestBan = 366 * 24 * 3600 // seconds

func (v *validator) bans() {
	b := v.Bans
	within(v.report, "bans.first", b.First, seconds(1), seconds(longestBan))
	within(v.report, "bans.longest", b.Longest, seconds(1), seconds(longestBan))
	within(v.report, "bans.memory", b.Memory, 0, seconds(longestBan))
	if b.Longest < b.First {
		v.fault("bans.longest", b.Longest, fmt.Sprintf("not less than bans.first, which is %s", b.First))
	}
	within(v.report, "bans.ipv4", b.IPv4, 16, 32)
	within(v.report, "bans.ipv6", b.IPv6, 32, 128)
}
