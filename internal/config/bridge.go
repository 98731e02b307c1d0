package config

import (
	"slices"
	"strings"
)

// bridges checks that no route weakens a promise of delivery unless it says so, in either direction.
func (v *validator) bridges() {
	for i, r := range v.Routes {
		upstream := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
		if upstream < 0 {
			continue
		}
		if r.Mode == Relay {
			v.relayed(item("route", i), r, upstream)
			continue
		}
		if !v.terminable(r, upstream) {
			continue
		}
		var found findings
		for _, l := range v.Listeners {
			if l.Route == r.Name {
				v.weigh(&found, l.Protocols, v.Upstreams[upstream].Protocol)
			}
		}
		v.weakened(item("route", i), r, found)
		v.advised(item("route", i), r, found)
		v.messages(item("route", i), r, found.dialects)
	}
}

// findings is what a route's pairs of protocols lose, in words, one for each pair and direction.
type findings struct {
	order    []string // asks for Route.Ordered
	resends  []string // asks for Route.Reliable
	delivery []string // asks for Route.AllowLossy
	ids      []string
	own      []string // asks for a raw Route.Envelope
	merged   []string
	unheard  []string // what players say, and servers do not take
	dialects []string // names of protocols that spell the same payloads differently
}

// weigh adds what is lost between each client protocol and the upstream's. Names that will not do are reported
// elsewhere.
func (v *validator) weigh(found *findings, clients []string, upstream string) {
	for _, client := range clients {
		if v.known[client].Server && v.known[upstream].Client {
			v.compare(found, client, upstream)
			v.compare(found, upstream, client)
			v.unheard(found, client, upstream)
		}
	}
}

// compare adds what a message loses on its way from one protocol to another.
func (v *validator) compare(found *findings, from, to string) {
	had, has := v.known[from], v.known[to]
	if had.Reliable && !has.Reliable {
		if has.Reports {
			found.resends = add(found.resends, to+" only tells what was lost of what "+from+" promises to deliver")
		} else {
			found.delivery = add(found.delivery, to+" does not resend what "+from+" promises to deliver")
		}
	}
	if sentence := outOfOrder(from, had, to, has); sentence != "" {
		if has.Reliable || has.Reports {
			found.order = add(found.order, sentence)
		} else {
			found.delivery = add(found.delivery, sentence)
		}
	}
	switch {
	case had.IDs && has.Closed || had.Closed && has.IDs:
		own := to
		if had.Closed {
			own = from
		}
		found.own = add(found.own, own+" carries nothing but its own messages")
	case had.IDs && !has.IDs:
		found.ids = add(found.ids, to+" has no message IDs and "+from+" has")
	}
	if has.Joins && !had.Joins {
		found.merged = add(found.merged, to+" may join messages and "+from+" does not")
	}
	if from != to && had.Types != nil && has.Types != nil {
		found.dialects = add(found.dialects, from)
	}
}

// outOfOrder says how a protocol does not keep the order that another promises; nothing if it does.
func outOfOrder(from string, had Traits, to string, has Traits) string {
	switch {
	case had.Ordered && !has.Ordered:
		return to + " does not keep the order that " + from + " promises"
	case !had.dropsOld() || has.keepsOldOut(had):
		return ""
	case had.Sequenced:
		return to + " may deliver late a sequenced message that " + from + " drops once a newer one has come"
	}
	return to + " may deliver late a notify message that " + from + " drops once a newer one has come"
}

// dropsOld reports whether some of the protocol's messages never arrive later than a newer one.
func (t Traits) dropsOld() bool { return t.Sequenced || t.Reports }

// keepsOldOut reports whether that promise of another protocol can be kept. A wire that reports losses has no message
// IDs in what it reports on, so what comes without any cannot be sent there.
func (t Traits) keepsOldOut(from Traits) bool {
	return t.Ordered || t.Sequenced || t.Reports && (from.IDs || !t.IDs)
}

func add(sentences []string, sentence string) []string {
	if slices.Contains(sentences, sentence) {
		return sentences
	}
	return append(sentences, sentence)
}

// weakened reports what a route loses without saying so.
func (v *validator) weakened(path string, r Route, found findings) {
	if len(found.order) > 0 && r.Ordered == "" && !r.AllowLossy {
		v.fault(child(path, "ordered"), r.Ordered, `"fast" (sent at once: rate is kept, order only while the network `+
			`keeps it), "strict" (one message per round trip and channel: order is kept, rate is not) or allow_lossy = true: `+
			strings.Join(found.order, "; "))
	}
	if len(found.resends) > 0 && r.Reliable == "" && !r.AllowLossy {
		v.fault(child(path, "reliable"), r.Reliable, `"resend" (kept, and sent again until known to have arrived: at least `+
			`once), "report" (sent once; what is lost is counted) or allow_lossy = true: `+strings.Join(found.resends, "; "))
	}
	if len(found.own) > 0 && r.Envelope != EnvelopeRaw {
		v.fault(child(path, "envelope"), r.Envelope, `"raw": `+strings.Join(found.own, "; "))
	}
	if len(found.delivery) > 0 && !r.AllowLossy {
		v.fault(child(path, "allow_lossy"), r.AllowLossy, "true, to accept losses, or another upstream protocol: "+
			strings.Join(found.delivery, "; "))
	}
}

// advised warns of envelopes that hardly suit a route.
func (v *validator) advised(path string, r Route, found findings) {
	key := child(path, "envelope")
	if len(found.ids) > 0 && r.Envelope == EnvelopeRaw {
		v.warn(key, r.Envelope, `"id" or "framed" if the game tells messages apart by ID: `+strings.Join(found.ids, "; "))
	}
	if len(found.unheard) > 0 {
		v.warn(child(path, "upstream"), r.Upstream, "R-Type of one age on both sides: "+strings.Join(found.unheard, "; "))
	}
	if len(found.merged) > 0 && r.Envelope != EnvelopeFramed && r.Envelope != EnvelopeAggregate {
		v.warn(key, r.Envelope, `"framed" unless the game can tell where a message ends: `+strings.Join(found.merged, "; "))
	}
}
