package config

import (
	"fmt"
	"slices"

	"tidegate/codec"
	"tidegate/internal/policy"
)

const (
	maxMapRows = 1024
	minPacket  = 28 // RakNet uses bytes below 0x1b itself, and rewrites the time behind 0x1b
)

// maps checks the map of the route at path, between players of some protocols and servers of one.
func (v *validator) maps(path string, r Route, clients []string, server string) {
	clients = slices.DeleteFunc(clients, func(name string) bool { return !v.known[name].Server })
	if len(clients) == 0 || !v.known[server].Client {
		return
	}
	if len(r.Map) > maxMapRows {
		v.fault(item(child(path, "map"), maxMapRows), nil, fmt.Sprintf("at most %d rows", maxMapRows))
		return
	}
	for i := range r.Map {
		row, entry := &r.Map[i], item(child(path, "map"), i)
		if v.missing(entry, row) {
			continue
		}
		c, s := row.Client.Value(), row.Server.Value()
		if c.Count() != s.Count() {
			v.fault(child(entry, "server"), row.Server, fmt.Sprintf("as many numbers as client has: %d", c.Count()))
		}
		players := v.speakers(c, clients)
		v.form(child(entry, "client"), row.Client, clients, players)
		servers := v.speakers(s, []string{server})
		v.form(child(entry, "server"), row.Server, []string{server}, servers)
		if row.ToClient() {
			servers = players
		}
		v.receivers(entry, row, servers)
		v.distinct(path, r.Map, i)
	}
}

// missing reports the forms that a row lacks.
func (v *validator) missing(entry string, row *MapRow) bool {
	if row.Client == "" {
		v.fault(child(entry, "client"), nil, expected(formType))
	}
	if row.Server == "" {
		v.fault(child(entry, "server"), nil, expected(formType))
	}
	return row.Client == "" || row.Server == ""
}

// speakers returns those of some protocols whose messages may have a form. A number without a width is a byte only if
// none of them has IDs.
func (v *validator) speakers(f policy.Form, names []string) []string {
	hasIDs := slices.ContainsFunc(names, func(name string) bool { return v.known[name].IDs })
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		t := v.known[name]
		return t.Closed || t.IDs != f.IsAlone() && (t.IDs || hasIDs)
	})
}

// form checks a form for the protocols of one side, of which some speak it.
func (v *validator) form(key string, of Form, names, speak []string) {
	f := of.Value()
	for _, name := range names {
		if v.known[name].Closed {
			v.fault(key, of, "no [[route.map]]: "+name+" carries only its own messages")
			return
		}
	}
	if len(speak) == 0 {
		want := `a number alone, such as "7": each message of ` + enumerate(names) + " has an ID beside it"
		if f.IsAlone() {
			want = `bytes, such as "0x86 7:u16le"`
		}
		v.fault(key, of, want)
		return
	}
	for _, name := range speak {
		switch t := v.known[name]; {
		case t.IDs:
		case f.IsAlone() && f.High > 255:
			v.fault(key, of, `a byte, or a width: u16le, u16be, u32le or u32be, as in "300:u16le"`)
			return
		case t.FirstByte:
			f := f.AsByte()
			if low, _ := f.FirstBytes(); low < minPacket {
				v.fault(key, of, fmt.Sprintf("a first byte from %d: %s uses %d itself", minPacket, name, low))
				return
			}
		}
	}
}

// receivers checks the mode and the channel of a row for the protocols that get its messages.
func (v *validator) receivers(entry string, row *MapRow, names []string) {
	for _, name := range names {
		t := v.known[name]
		var words []string
		for m := codec.Unreliable; m <= codec.Notify; m++ {
			if t.Modes.Has(m) && (m != codec.Notify || !t.IDs) {
				words = append(words, m.String())
			}
		}
		if row.Mode != "" && !slices.Contains(words, string(row.Mode)) {
			v.fault(child(entry, "mode"), row.Mode, "a mode that "+name+" has: "+either(words))
		}
		if row.Channel >= max(t.Channels, 0) {
			v.fault(child(entry, "channel"), row.Channel,
				fmt.Sprintf("no channel, or a smaller one: %s has %d", name, t.Channels))
		}
	}
}

// distinct reports a row that takes messages of an earlier one.
func (v *validator) distinct(path string, rows []MapRow, i int) {
	for j := range i {
		a, b := &rows[j], &rows[i]
		meet := func(key string, one, other Form, sender policy.Direction) {
			f, o := one.Value(), other.Value()
			isFrom := func(r *MapRow) bool { return r.From.Is(policy.Both) || r.From.Is(sender) }
			if one != "" && isFrom(a) && isFrom(b) && f.Meets(&o) {
				v.fault(child(item(child(path, "map"), i), key), other, "messages of its own; "+
					v.where(item(child(path, "map"), j))+" has some of them already")
			}
		}
		meet("client", a.Client, b.Client, policy.FromClient)
		meet("server", a.Server, b.Server, policy.FromUpstream)
	}
}
