package config

import (
	"slices"
	"strings"

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
	case !had.dropsOld() || has.keepsOldOut(had):
		return ""
	case had.Sequenced:
		return to + " may deliver a sequenced message after a newer one, and " + from + " drops such messages"
	}
	return to + " may deliver a notify message after a newer one, and " + from + " drops such messages"
}

// dropsOld reports whether some messages of the protocol never arrive after a newer one.
func (t Traits) dropsOld() bool { return t.Sequenced || t.Reports }

// keepsOldOut reports whether a protocol can keep that promise of another one. A protocol that reports losses has no
// message IDs in reported messages, so messages without an ID cannot use that mode.
func (t Traits) keepsOldOut(from Traits) bool {
	return t.Ordered || t.Sequenced || t.Reports && (from.IDs || !t.IDs)
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
