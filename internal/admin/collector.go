package admin

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"tidegate/codec"
	"tidegate/proxy"
)

// family is a metric of ours: its labels are names of the configuration and words of a fixed list, never an address, so
// that what attackers do cannot make more of them.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newFamily(kind prometheus.ValueType, name, help string, labels ...string) family {
	return family{prometheus.NewDesc("tidegate_"+name, help, labels, nil), kind}
}

func counter(name, help string, labels ...string) family {
	return newFamily(prometheus.CounterValue, name, help, labels...)
}

func gauge(name, help string, labels ...string) family {
	return newFamily(prometheus.GaugeValue, name, help, labels...)
}

// metricsOf is one scrape's output.
type metricsOf chan<- prometheus.Metric

func (out metricsOf) set(f family, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

func (out metricsOf) count(f family, n uint64, labels ...string) { out.set(f, float64(n), labels...) }

func (out metricsOf) histogram(f family, h *proxy.Histogram, labels ...string) {
	buckets := make(map[float64]uint64)
	for bound, n := range h.Buckets {
		buckets[bound.Seconds()] = n
	}
	out <- prometheus.MustNewConstHistogram(f.desc, h.Count(), h.Sum().Seconds(), buckets, labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Metrics of the proxy as a whole.
var (
	buildInfo = gauge("build_info", "Always 1; the labels tell what runs.", "version", "goversion")
	up        = gauge("up", "Whether every loop answered this scrape. If not, it has no other metrics of sessions and traffic.")
	loops     = gauge("loops", "Loops that carry datagrams.")
	draining  = gauge("draining", "Whether nobody is let in any more.")
)

// collector asks the proxy for its totals at each scrape.
type collector struct {
	proxy   Proxy
	reloads func() Reloads
	build   [2]string
}

// Describe implements prometheus.Collector. It tells nothing: which metrics there are depends on the configuration.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	out := metricsOf(to)
	out.set(buildInfo, 1, c.build[:]...)
	out.reloads(c.reloads())
	out.upstreams(c.proxy.Upstreams())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f, err := c.proxy.Figures(ctx)
	out.set(up, truth(err == nil))
	if err != nil {
		return
	}
	out.set(loops, float64(len(f.Sockets)))
	out.set(draining, truth(f.Draining))
	out.sessions(f.Sessions)
	out.traffic(&f)
	out.drops(f.Drops)
	out.rules(f.Rules)
	out.set(bans, float64(f.Bans))
	out.sockets(&f)
	out.kernel(&f.Kernel)
}

// Metrics of sessions. The protocol is the clients'.
var (
	sessions   = gauge("sessions", "Sessions there are.", "listener", "protocol", "state")
	opened     = counter("sessions_opened_total", "Sessions asked for.", "listener", "protocol")
	handshakes = counter("handshakes_total", "Handshakes that ended, by whether both sides were connected then.",
		"listener", "protocol", "result")
	ended = counter("sessions_ended_total", "Sessions that ended, by whose end it was and why.",
		"listener", "protocol", "by", "reason")
	messages     = counter("messages_total", "Messages received.", "listener", "protocol", "from", "mode")
	messageBytes = counter("message_bytes_total", "Bytes of payload of messages received.", "listener", "protocol", "from", "mode")
)

func (out metricsOf) sessions(tallies []*proxy.Tally) {
	for _, t := range tallies {
		out.count(sessions, t.Open()-t.HalfOpen(), t.Listener, t.Protocol, "established")
		out.count(sessions, t.HalfOpen(), t.Listener, t.Protocol, "half-open")
		out.count(opened, t.Opened, t.Listener, t.Protocol)
		out.count(handshakes, t.Established, t.Listener, t.Protocol, "established")
		out.count(handshakes, t.Unestablished, t.Listener, t.Protocol, "failed")
		for by := range t.Ended {
			for reason, n := range t.Ended[by] {
				if n > 0 { // most never happen
					out.count(ended, n, t.Listener, t.Protocol, proxy.Party(by).String(), codec.Reason(reason).String())
				}
			}
		}
		out.modes(t, "client", &t.FromClients)
		out.modes(t, "server", &t.FromUpstreams)
	}
}

func (out metricsOf) modes(t *proxy.Tally, from string, by *[codec.ModeCount]proxy.Traffic) {
	for mode, traffic := range by {
		if traffic.Messages == 0 { // no pair of protocols has all modes
			continue
		}
		out.count(messages, traffic.Messages, t.Listener, t.Protocol, from, codec.Mode(mode).String())
		out.count(messageBytes, traffic.Bytes, t.Listener, t.Protocol, from, codec.Mode(mode).String())
	}
}

// Metrics of traffic.
var (
	datagrams     = counter("datagrams_total", "Datagrams, strangers' included.", "side", "direction")
	datagramBytes = counter("datagram_bytes_total", "Bytes of datagrams, without the headers of IP and UDP.", "side", "direction")
	queued        = gauge("queued_bytes", "Bytes of messages that wait to be sent or acknowledged, as of a few seconds ago.", "side")
	roundTrip     = newFamily(0, "rtt_seconds", "Round trips of sessions that have traffic, each looked at every few seconds.", "side")
	turn          = newFamily(0, "turn_seconds", "What a loop took from receiving to sending, one turn of 16 measured.")
	resent        = counter("resent_total", "Transmissions of messages beyond their first.", "side")
	lost          = counter("lost_total", "Messages or datagrams known not to have arrived the first time.", "side")
	overtaken     = counter("messages_overtaken_total", `Messages that arrived after a newer one of their channel (ordered = "fast").`)
	unreported    = counter("messages_lost_total", `Reliable messages that are lost for good (reliable = "report").`)
	paced         = counter("paced_total", "Datagrams that waited for their turn on the way to a server (max_packets).")
	passed        = counter("messages_passed_total", "Messages that went untranslated, for want of declared types.")
)

func (out metricsOf) traffic(f *proxy.Figures) {
	out.wire("client", &f.Counters.Clients, &f.Counters.RelayedDown)
	out.wire("server", &f.Counters.Upstreams, &f.Counters.RelayedUp)
	out.set(queued, float64(f.ToClients.Queued), "client")
	out.set(queued, float64(f.ToUpstreams.Queued), "server")
	out.histogram(roundTrip, &f.ToClients.RTT, "client")
	out.histogram(roundTrip, &f.ToUpstreams.RTT, "server")
	out.count(resent, f.ToClients.Resent, "client")
	out.count(resent, f.ToUpstreams.Resent, "server")
	out.count(lost, f.ToClients.Lost, "client")
	out.count(lost, f.ToUpstreams.Lost, "server")
	out.histogram(turn, &f.Turns)
	out.count(overtaken, f.Counters.Overtaken)
	out.count(unreported, f.Counters.Lost)
	out.count(passed, f.Counters.Passed)
	out.failovers(&f.Counters)
	out.count(paced, f.Counters.Paced)
}

// wire tells of one side's datagrams; relayed are those sent to it that were passed on as they came.
func (out metricsOf) wire(side string, w *proxy.Wire, relayed *proxy.Traffic) {
	out.count(datagrams, w.In.Messages, side, "in")
	out.count(datagrams, w.Out.Messages+relayed.Messages, side, "out")
	out.count(datagramBytes, w.In.Bytes, side, "in")
	out.count(datagramBytes, w.Out.Bytes+relayed.Bytes, side, "out")
}

// Metrics of what was lost on purpose, or for want of room.
var (
	dropped     = counter("dropped_total", "Datagrams and messages that went no further, by reason.", "listener", "reason")
	socketDrops = counter("socket_drops_total", "Datagrams lost between Tidegate and the kernel.", "loop", "reason")
	socketCalls = counter("socket_calls_total", "System calls that carried datagrams.", "loop", "direction")
	ruleMatches = counter("rule_matches_total", "What rules matched, observing ones included.", "kind", "rule")
	bans        = gauge("bans", "Bans that are kept, those that are over but remembered included.")
	streams     = counter("streams_total", "TCP connections, by what became of them.", "event")
)

func (out metricsOf) drops(tallies []*proxy.DropTally) {
	for _, t := range tallies {
		for why, n := range t.Drops {
			out.count(dropped, n, t.Listener, proxy.Drop(why).String())
		}
	}
}

func (out metricsOf) rules(counts []proxy.RuleCount) {
	for _, r := range counts {
		out.count(ruleMatches, r.Matches, r.Kind, r.Name)
	}
}
