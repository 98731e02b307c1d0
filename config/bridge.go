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
		var weak weakness
		for _, l := range v.Listeners {
			if l.Route == r.Name {
				v.weigh(&weak, l.Protocols, v.Upstreams[upstream].Protocol)
			}
		}
		v.weakened(item("route", i), r, weak)
	}
}

// weakness is what a route's pairs of protocols lose, in words, one for each pair and direction.
type weakness struct{ order, delivery, ids []string }

// weigh adds what is lost between each client protocol and the upstream's. Names that will not do are reported
// elsewhere.
func (v *validator) weigh(weak *weakness, clients []string, upstream string) {
	for _, client := range clients {
		if v.known[client].Server && v.known[upstream].Client {
			v.compare(weak, client, upstream)
			v.compare(weak, upstream, client)
		}
	}
}

// compare adds what a message loses on its way from one protocol to another.
func (v *validator) compare(weak *weakness, from, to string) {
	had, has := v.known[from], v.known[to]
	if had.Ordered && !has.Ordered || had.Sequenced && !has.Sequenced && !has.Ordered {
		weak.order = add(weak.order, to+" does not keep the order that "+from+" promises")
	}
	if had.Reliable && !has.Reliable {
		weak.delivery = add(weak.delivery, to+" does not resend what "+from+" promises to deliver")
	}
	if had.IDs && !has.IDs {
		weak.ids = add(weak.ids, to+" has no message IDs and "+from+" has")
	}
}

func add(sentences []string, sentence string) []string {
	if slices.Contains(sentences, sentence) {
		return sentences
	}
	return append(sentences, sentence)
}

// weakened reports what a route loses without saying so.
func (v *validator) weakened(path string, r Route, weak weakness) {
	if len(weak.order) > 0 && r.Ordered == "" && !r.AllowLossy {
		v.fault(child(path, "ordered"), r.Ordered, `"fast" (sent at once: rate is kept, order only while the network `+
			`keeps it), "strict" (one message per round trip and channel: order is kept, rate is not) or allow_lossy = true: `+
			strings.Join(weak.order, "; "))
	}
	if len(weak.delivery) > 0 && !r.AllowLossy {
		v.fault(child(path, "allow_lossy"), r.AllowLossy, "true, to accept losses, or another upstream protocol: "+
			strings.Join(weak.delivery, "; "))
	}
	if len(weak.ids) > 0 && r.Envelope == EnvelopeRaw {
		v.warn(child(path, "envelope"), r.Envelope, `"id" or "framed" if the game tells messages apart by ID: `+
			strings.Join(weak.ids, "; "))
	}
}
