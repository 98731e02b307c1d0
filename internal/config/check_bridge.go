package config

import (
	"fmt"
	"slices"
	"strings"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// bridges checks that no route weakens a delivery guarantee in either direction unless the route allows it.
func (v *validator) bridges() {
	for i, r := range v.Routes {
		upstream := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
		if upstream < 0 {
			continue
		}
		v.modules(item("route", i), r)
		if r.Mode.Is(policy.ModeRelay) {
			v.checkRelay(item("route", i), r, upstream)
			continue
		}
		if !v.terminable(r, upstream) {
			continue
		}
		var found findings
		var clients []string
		for _, l := range v.Listeners {
			if l.Route == r.Name {
				clients = append(clients, l.Protocols...)
				v.compareAll(&found, l.Protocols, v.Upstreams[upstream].Protocol)
			}
		}
		v.requireOptions(item("route", i), r, found)
		v.warnEnvelopes(item("route", i), r, found)
		v.messages(item("route", i), r, found.dialects)
		v.maps(item("route", i), r, clients, v.Upstreams[upstream].Protocol)
	}
}

// findings describes the losses of a route's protocols, one sentence for each pair of protocols and direction.
type findings struct {
	order    []string // requires Route.Ordered
	resends  []string // requires Route.Reliable
	delivery []string // requires Route.AllowLossy
	ids      []string
	own      []string // requires a raw Route.Envelope
	merged   []string
	inputs   []string // inputs of players that servers do not accept
	dialects []string // names of protocols that encode the same payloads differently
}

// compareAll adds the losses between each client protocol and the upstream's. Unknown names are reported elsewhere.
func (v *validator) compareAll(found *findings, clients []string, upstream string) {
	for _, client := range clients {
		if v.known[client].Server && v.known[upstream].Client {
			v.compare(found, client, upstream)
			v.compare(found, upstream, client)
			v.checkInputs(found, client, upstream)
		}
	}
}

// compare adds the losses of messages from one protocol to another.
func (v *validator) compare(found *findings, from, to string) {
	had, has := v.known[from], v.known[to]
	if had.Reliable && !has.Reliable {
		if has.Reports {
			found.resends = addOnce(found.resends, to+" only reports the loss of messages that "+from+" promises to deliver")
		} else {
			found.delivery = addOnce(found.delivery, to+" does not resend messages that "+from+" promises to deliver")
		}
	}
	if sentence := outOfOrder(from, had, to, has); sentence != "" {
		if has.Reliable || has.Reports {
			found.order = addOnce(found.order, sentence)
		} else {
			found.delivery = addOnce(found.delivery, sentence)
		}
	}
	switch {
	case had.IDs && has.Closed || had.Closed && has.IDs:
		own := to
		if had.Closed {
			own = from
		}
		found.own = addOnce(found.own, own+" carries only its own messages")
	case had.IDs && !has.IDs:
		found.ids = addOnce(found.ids, to+" has no message IDs and "+from+" has")
	}
	if has.Joins && !had.Joins {
		found.merged = addOnce(found.merged, to+" may join messages and "+from+" does not")
	}
	if from != to && had.Types != nil && has.Types != nil {
		found.dialects = addOnce(found.dialects, from)
	}
}

// outOfOrder describes how a protocol breaks an order that another promises. It returns "" if it does not.
func outOfOrder(from string, had Traits, to string, has Traits) string {
	switch {
	case had.Ordered && !has.Ordered:
		return to + " does not keep the order that " + from + " promises"
	// A protocol that reports losses has no message IDs in reported messages, so messages without an ID cannot use that
	// mode.
	case !had.Sequenced && !had.Reports || has.Ordered || has.Sequenced || has.Reports && (had.IDs || !has.IDs):
		return ""
	case had.Sequenced:
		return to + " may deliver a sequenced message after a newer one, and " + from + " drops such messages"
	}
	return to + " may deliver a notify message after a newer one, and " + from + " drops such messages"
}

func addOnce(sentences []string, sentence string) []string {
	if slices.Contains(sentences, sentence) {
		return sentences
	}
	return append(sentences, sentence)
}

// requireOptions reports losses that the route's options do not allow.
func (v *validator) requireOptions(path string, r Route, found findings) {
	if len(found.order) > 0 && r.Ordered == "" && !r.AllowLossy {
		v.fault(child(path, "ordered"), r.Ordered, `"fast" (sent at once: rate is kept, order only while the network `+
			`keeps it), "strict" (one message per round trip and channel: order is kept, rate is not) or allow_lossy = true: `+
			strings.Join(found.order, "; "))
	}
	if len(found.resends) > 0 && r.Reliable == "" && !r.AllowLossy {
		v.fault(child(path, "reliable"), r.Reliable, `"resend" (repeat until acknowledged: at least once), `+
			`"report" (send once and count losses) or allow_lossy = true: `+strings.Join(found.resends, "; "))
	}
	if len(found.own) > 0 && !r.Envelope.Is(policy.EnvelopeRaw) {
		v.fault(child(path, "envelope"), r.Envelope, `"raw": `+strings.Join(found.own, "; "))
	}
	if len(found.delivery) > 0 && !r.AllowLossy {
		v.fault(child(path, "allow_lossy"), r.AllowLossy, "true, to accept losses, or another upstream protocol: "+
			strings.Join(found.delivery, "; "))
	}
}

// warnEnvelopes warns about envelopes that may not suit the route.
func (v *validator) warnEnvelopes(path string, r Route, found findings) {
	key := child(path, "envelope")
	if len(found.ids) > 0 && len(r.Map) == 0 && r.Envelope.Is(policy.EnvelopeRaw) {
		v.warn(key, r.Envelope, `"id" or "framed" if the game distinguishes messages by ID: `+strings.Join(found.ids, "; "))
	}
	if len(found.inputs) > 0 {
		v.warn(child(path, "upstream"), r.Upstream, "the same generation of R-Type on both sides: "+
			""+strings.Join(found.inputs, "; "))
	}
	if len(found.merged) > 0 && len(r.Map) > 0 {
		v.warn(child(path, "map"), nil, "messages that tell their length, or no [[route.map]]: "+
			strings.Join(found.merged, "; "))
	}
	if len(found.merged) > 0 && !r.Envelope.Is(policy.EnvelopeFramed) && !r.Envelope.Is(policy.EnvelopeAggregate) {
		v.warn(key, r.Envelope, `"framed" unless the game can tell where a message ends: `+strings.Join(found.merged, "; "))
	}
}

// checkInputs adds a finding if the servers accept none of the inputs that players can send.
func (v *validator) checkInputs(found *findings, client, upstream string) {
	says, takes := v.known[client].Inputs, v.known[upstream].Inputs
	accepted := func(input string) bool { return slices.Contains(takes, input) }
	if says == nil || takes == nil || slices.ContainsFunc(says, accepted) {
		return
	}
	found.inputs = addOnce(found.inputs, "players of "+client+" send "+strings.Join(says, " and ")+
		", and servers of "+upstream+" accept only "+strings.Join(takes, " and ")+
		", so only messages from the server pass")
}

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
