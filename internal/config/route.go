package config

const (
	minPacketID = 0x1c // RakNet uses IDs below 0x1b itself, and rewrites the time in messages with 0x1b (27)
	maxPacketID = 254  // leaves room for the next byte, which marks messages without an ID
)

// routes checks each route by itself. bridges checks its two protocols together.
func (v *validator) routes() {
	for i, r := range v.Routes {
		path := item("route", i)
		v.reference(child(path, "upstream"), r.Upstream, "upstream", namesOf(v.Upstreams, upstreamName))
		within(v.report, child(path, "packet_id"), r.PacketID, minPacketID, maxPacketID)
		within(v.report, child(path, "queue"), r.Queue, 16*KiB, GiB)
		v.pong(path, r)
		v.failover(path, r)
	}
}

func (v *validator) upstreams() {
	for i, u := range v.Upstreams {
		path := item("upstream", i)
		v.protocol(child(path, "protocol"), u.Protocol, func(t Traits) bool { return t.Client })
		v.transport(child(path, "transport"), u.Transport, []string{u.Protocol})
		v.servers(i)
		v.proxyProtocol(path, u)
		v.health(path, u)
		v.discover(path, u)
		v.transparent(path, u)
		v.sourcesAndRate(path, u)
		v.sourcePrefix(i)
		v.ports(i)
		v.upstreamCookies(path, &v.Upstreams[i])
		v.receiveBuffer(path, u)
		within(v.report, child(path, "retry_after"), u.RetryAfter, milliseconds(100), seconds(3600))
	}
}

// unused warns about routes and upstreams without a reference.
func (v *validator) unused() {
	routed, sent := make(map[string]bool), make(map[string]bool)
	for _, l := range v.Listeners {
		routed[l.Route] = true
	}
	for i, r := range v.Routes {
		sent[r.Upstream] = true
		if !routed[r.Name] {
			v.warn(child(item("route", i), "name"), r.Name, "a listener that uses this route")
		}
	}
	for i, u := range v.Upstreams {
		if !sent[u.Name] {
			v.warn(child(item("upstream", i), "name"), u.Name, "a route that uses this upstream")
		}
	}
}
