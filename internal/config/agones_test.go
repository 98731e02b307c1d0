package config

import (
	"reflect"
	"testing"
)

func TestAgones(t *testing.T) {
	table := `agones = { fleet = "arena", selector = "map in (dunes, sea),!beta" }`
	c, _, err := Parse("t.toml", discovering(table), known)
	if err != nil {
		t.Fatal(err)
	}
	var want Agones
	setDefaults(reflect.ValueOf(&want).Elem())
	want.Fleet, want.Selector = "arena", "map in (dunes, sea),!beta"
	if got := c.Upstreams[0].Agones; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAgonesFaults(t *testing.T) {
	for _, row := range []struct{ lines, want string }{
		{`fleet = "Arena"`, `18:9: upstream[0].agones.fleet = "Arena": want the name of a fleet: ` + labelForm},
		{`selector = "map=(dunes"`, `18:12: upstream[0].agones.selector = "map=(dunes": want labels as Kubernetes selects ` +
			`them, for example "map=dunes,mode in (duel, team)"`},
		{"fleet = \"a\"\nstates = []", `19:10: upstream[0].agones.states = []: want at least one state`},
		{"fleet = \"a\"\nstates = [\"Ready\", \"Ready\"]", `19:20: upstream[0].agones.states[1] = "Ready": ` +
			`want each state once`},
		{"fleet = \"a\"\nstates = [\"Shutdown\"]", `19:11: upstream[0].agones.states[0] = "Shutdown": want "Ready", ` +
			`"Allocated" or "Reserved"`},
		{"fleet = \"a\"\naddress = \"external\"", `19:11: upstream[0].agones.address = "external": want "node", "internal" ` +
			`or "pod"`},
		{"fleet = \"a\"\nport = \"0\"", `19:8: upstream[0].agones.port = "0": want the name of a port, its number in ` +
			`quotes, or ""`},
	} {
		_, _, err := Parse("t.toml", withTable("[upstream.agones]\n"+row.lines), known)
		check(t, err, "t.toml:"+row.want)
	}
	_, _, err := Parse("t.toml", append([]byte(valid), "\n[upstream.agones]\ncapacity = \"players\"\n"...), known)
	check(t, err, "t.toml:16:11: upstream[0].agones.fleet: want the name of a fleet, a selector of labels, or no "+
		"[upstream.agones]")
}
