package admin

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// family is one of our metrics. Label values are names and servers in the configuration, and words of a fixed list. No
// client's address is one. So an attacker cannot create time series.
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

// metricsOf is the output of one scrape.
type metricsOf chan<- prometheus.Metric

func (out metricsOf) set(f family, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

func (out metricsOf) count(f family, n uint64, labels ...string) { out.set(f, float64(n), labels...) }

func (out metricsOf) histogram(f family, h *stats.Histogram, labels ...string) {
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
	buildInfo = gauge("build_info", "Always 1; the labels name the running version.", "version", "goversion")
	up        = gauge("up", "1 if every loop answered this scrape. If not, metrics of sessions and traffic are missing.")
	loops     = gauge("loops", "Loops that forward datagrams.")
	draining  = gauge("draining", "1 while the proxy admits no new sessions.")
	bound     = gauge("limit", "Configured value of a key of [limits], to divide figures by.", "key")
	linesLost = counter("log_lines_lost_total", "Log lines lost because the log had no reader or a write failed.")
)

// collector asks the proxy for its totals at each scrape.
type collector struct{ *Options }

// Describe implements prometheus.Collector. It describes nothing, since the metrics depend on the configuration.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	out := metricsOf(to)
	out.set(buildInfo, 1, c.Version, runtime.Version())
	out.reloads(c.Reloads())
	out.count(linesLost, c.LinesLost())
	for key, value := range c.Limits() {
		out.set(bound, float64(value), key)
	}
	out.fleet(c.Fleet())
	out.joins(c.Joins())
	upstreams := c.Proxy.Upstreams()
	out.upstreams(upstreams)
	out.serverStates(upstreams)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f, err := c.Proxy.Figures(ctx)
	out.set(up, truth(err == nil))
	if err != nil {
		return
	}
	out.set(loops, float64(len(f.Sockets)))
	out.set(draining, truth(f.Draining))
	out.sessions(f.Sessions)
	out.traffic(&f)
	out.servers(f.Servers)
	out.drops(f.Drops)
	out.rules(f.Rules)
	out.limits(&f.Counters)
	out.set(bans, float64(f.Bans))
	for table, n := range f.Tables {
		out.set(tables, float64(n), stats.Table(table).String())
	}
	out.sockets(&f)
	out.kernel(&f.Kernel)
}

// Metrics of sessions. The protocol is the client's.
var (
	sessions   = gauge("sessions", "Current sessions.", "listener", "protocol", "state")
	opened     = counter("sessions_opened_total", "Sessions opened.", "listener", "protocol")
	handshakes = counter("handshakes_total", "Handshakes that ended, by result: both sides connected, or failed.",
		"listener", "protocol", "result")
	ended = counter("sessions_ended_total", "Sessions that ended, by the side that ended them and the reason.",
		"listener", "protocol", "by", "reason")
	handshakeTime = newFamily(0, "handshake_seconds",
		"Times of successful handshakes, from the first datagram until both sides are connected.", "listener", "protocol")
	messages     = counter("messages_total", "Messages received.", "listener", "protocol", "from", "mode")
	messageBytes = counter("message_bytes_total", "Payload bytes of messages received.",
		"listener", "protocol", "from", "mode")
)

func (out metricsOf) sessions(tallies []*stats.Tally) {
	for _, t := range tallies {
		out.count(sessions, t.Open()-t.HalfOpen(), t.Listener, t.Protocol, "established")
		out.count(sessions, t.HalfOpen(), t.Listener, t.Protocol, "half-open")
		out.count(opened, t.Opened, t.Listener, t.Protocol)
		out.count(handshakes, t.Established, t.Listener, t.Protocol, "established")
		out.count(handshakes, t.Unestablished, t.Listener, t.Protocol, "failed")
		out.histogram(handshakeTime, &t.Handshakes, t.Listener, t.Protocol)
		for by := range t.Ended {
			for reason, n := range t.Ended[by] {
				if n > 0 { // most are zero
					out.count(ended, n, t.Listener, t.Protocol, stats.Party(by).String(), codec.Reason(reason).String())
				}
			}
		}
		out.modes(t, "client", &t.FromClients)
		out.modes(t, "server", &t.FromUpstreams)
	}
}

func (out metricsOf) modes(t *stats.Tally, from string, by *[codec.ModeCount]stats.Traffic) {
	for mode, traffic := range by {
		if traffic.Messages == 0 { // no combination of protocols has all modes
			continue
		}
		out.count(messages, traffic.Messages, t.Listener, t.Protocol, from, codec.Mode(mode).String())
		out.count(messageBytes, traffic.Bytes, t.Listener, t.Protocol, from, codec.Mode(mode).String())
	}
}

// Joins are a listener's joins of NetherNet clients.
type Joins struct {
	Waiting int               // joins whose players have not come yet
	Stages  map[string]uint64 // totals by stage
}

var (
	joinsWaiting = gauge("joins_waiting", "Joins over HTTP whose players have not come yet.", "listener")
	joinStages   = counter("joins_total", "Joins of NetherNet clients that have reached a stage.", "listener", "stage")
)

func (out metricsOf) joins(all map[string]Joins) {
	for listener, j := range all {
		out.set(joinsWaiting, float64(j.Waiting), listener)
		for stage, n := range j.Stages {
			out.count(joinStages, n, listener, stage)
		}
	}
}

// Metrics of traffic.
var (
	datagrams     = counter("datagrams_total", "Datagrams, including those of strangers.", "side", "direction")
	received      = counter("datagrams_received_total", "Datagrams received, by their fate. Each has one.", "side", "fate")
	datagramBytes = counter("datagram_bytes_total", "Bytes of datagrams, without IP and UDP headers.", "side", "direction")
	queued        = gauge("queued_bytes", "Message bytes waiting to be sent or acknowledged, as sampled.", "side")
	held          = gauge("held_bytes", "Bytes held of unfinished and early messages, and of handshakes.", "scope")
	queueSize     = newFamily(0, "queue_bytes", "Message bytes that wait in one session, one sample per session and 5 s.",
		"side")
	roundTrip   = newFamily(0, "rtt_seconds", "Round-trip times of active sessions, as sampled.", "side")
	turn        = newFamily(0, "turn_seconds", "Time of a loop's turn from receiving to sending, for one of 16.")
	longestTurn = gauge("turn_longest_seconds",
		"Longest turn of the last minute or two, and the work that took most of it.", "loop", "work")
	resent    = counter("messages_resent_total", "Repeated transmissions of messages.", "side")
	lost      = counter("lost_total", "Messages or datagrams that did not arrive the first time.", "side")
	overtaken = counter("messages_overtaken_total",
		`Messages that arrived after a newer message of their channel (ordered = "fast").`)
	unreported     = counter("messages_lost_total", `Reliable messages lost for good (reliable = "report").`)
	redials        = counter("redials_total", "Handshakes with a server that were restarted from another address.")
	paced          = counter("datagrams_paced_total", "Datagrams to a server that were delayed by max_packets.")
	moduleFailures = counter("module_failures_total", "Messages that a module of their route could not handle.")
	passed         = counter("messages_passed_total", "Messages passed without translation, for lack of declared types.")
)

func (out metricsOf) traffic(f *relay.Figures) {
	out.wire("client", &f.Counters.Clients, &f.Counters.RelayedDown)
	out.wire("server", &f.Counters.Upstreams, &f.Counters.RelayedUp)
	out.set(queued, float64(f.ToClients.Queued), "client")
	out.set(queued, float64(f.ToUpstreams.Queued), "server")
	out.set(held, float64(f.Held.Overall), "overall")
	out.set(held, float64(f.Held.Address), "address")
	out.queues("client", &f.ToClients.Queues)
	out.queues("server", &f.ToUpstreams.Queues)
	out.histogram(roundTrip, &f.ToClients.RTT, "client")
	out.histogram(roundTrip, &f.ToUpstreams.RTT, "server")
	out.count(resent, f.ToClients.Resent, "client")
	out.count(resent, f.ToUpstreams.Resent, "server")
	out.count(lost, f.ToClients.Lost, "client")
	out.count(lost, f.ToUpstreams.Lost, "server")
	out.histogram(turn, &f.Turns)
	for i, longest := range f.Longest {
		out.set(longestTurn, longest.Took.Seconds(), strconv.Itoa(i), longest.Work.String())
	}
	out.count(overtaken, f.Counters.Overtaken)
	out.count(unreported, f.Counters.Lost)
	out.count(passed, f.Counters.Passed)
	out.count(moduleFailures, f.Counters.ModuleFailures)
	out.failovers(&f.Counters)
	out.count(redials, f.Counters.Redialed)
	out.count(paced, f.Counters.Paced)
}

// wire sends one side's datagram counts. relayed are the datagrams to this side that were relayed unchanged.
func (out metricsOf) wire(side string, w *stats.Wire, relayed *stats.Traffic) {
	out.count(datagrams, w.In.Messages, side, "in")
	out.count(datagrams, w.Out.Messages+relayed.Messages, side, "out")
	for fate, n := range w.Fates {
		out.count(received, n, side, stats.Fate(fate).String())
	}
	out.count(datagramBytes, w.In.Bytes, side, "in")
	out.count(datagramBytes, w.Out.Bytes+relayed.Bytes, side, "out")
}

// Metrics of drops and of bounded resources.
var (
	dropped     = counter("dropped_total", "Datagrams and messages dropped.", "listener", "reason")
	socketDrops = counter("socket_drops_total", "Datagrams lost between Tidegate and the kernel.", "loop", "reason")
	socketCalls = counter("socket_calls_total", "System calls that sent or received datagrams.", "loop", "direction")
	batchDelays = counter("batch_delays_total", "Times that a loop waited for more datagrams.", "loop")
	ruleMatches = counter("rule_matches_total", "Matches of rules, including rules that only observe.", "kind", "rule")

	limitBreaches = counter("limit_breaches_total",
		"Breaches of limits. With verdict observe the traffic passed, with enforce the limit's verdict was applied.",
		"of", "per", "verdict")
	tables  = gauge("table_entries", "Entries of the tables that clients and servers can make grow.", "table")
	bans    = gauge("bans", "Bans kept, including expired ones that still count.")
	streams = counter("streams_total", "TCP connections, by event.", "event")
)

func (out metricsOf) drops(tallies []*stats.DropTally) {
	for _, t := range tallies {
		for why, n := range t.Drops {
			out.count(dropped, n, t.Listener, stats.Drop(why).String())
		}
	}
}

// limits counts breaches of limits that have any.
func (out metricsOf) limits(c *stats.Counters) {
	for of := range ratelimit.Quantities {
		for per := range ratelimit.Scopes {
			breaches := &c.Limits[of][per]
			if breaches.Observed+breaches.Enforced > 0 {
				out.count(limitBreaches, breaches.Observed, of.String(), per.String(), "observe")
				out.count(limitBreaches, breaches.Enforced, of.String(), per.String(), "enforce")
			}
		}
	}
}

func (out metricsOf) rules(counts []admission.RuleCount) {
	for _, r := range counts {
		out.count(ruleMatches, r.Matches, r.Kind, r.Name)
	}
}

func (out metricsOf) sockets(f *relay.Figures) {
	var accepted, dialed, over, bad, silent, slow, refused uint64
	for i := range f.Sockets {
		s, loop := &f.Sockets[i], strconv.Itoa(i)
		out.count(socketDrops, s.KernelDrops, loop, "kernel-receive-buffer")
		out.count(socketDrops, s.FilterDrops, loop, "kernel-filter-or-receive-buffer")
		out.count(socketDrops, s.DialedDrops, loop, "upstream-receive-buffer")
		out.count(socketDrops, s.WouldBlock, loop, "kernel-send-buffer")
		out.count(socketDrops, s.Truncated, loop, "too-large-received")
		out.count(socketDrops, s.TooLarge, loop, "too-large-to-send")
		out.count(socketDrops, s.Strangers, loop, "stranger")
		out.count(socketDrops, s.Refused, loop, "refused")
		out.count(socketDrops, s.Errors, loop, "error")
		out.count(socketCalls, s.In.Calls, loop, "in")
		out.count(socketCalls, s.Out.Calls, loop, "out")
		out.count(batchDelays, s.Delays, loop)
		t := &s.Streams
		accepted, dialed, over = accepted+t.Accepted, dialed+t.Dialed, over+t.Ended
		bad, silent, slow, refused = bad+t.BadFrames, silent+t.Silent, slow+t.Slow, refused+t.Refused
	}
	out.count(streams, accepted, "accepted")
	out.count(streams, dialed, "dialed")
	out.count(streams, over, "ended-by-peer")
	out.count(streams, bad, "closed-bad-frame")
	out.count(streams, silent, "closed-silent")
	out.count(streams, slow, "closed-slow")
	out.count(streams, refused, "refused-full")
}

// Metrics of the kernel's filters and forwarding.
var (
	filtered  = counter("kernel_filtered_total", "Datagrams judged by kernel filters.", "hook", "verdict")
	known     = gauge("kernel_known", "Clients known to kernel filters.")
	forwarded = counter("kernel_forwarded_total",
		"Relayed datagrams forwarded by the kernel, by sender; datagrams_total includes them.", "side")
	limited = counter("kernel_limited_total",
		"Relayed datagrams of clients dropped by the kernel beyond a limit per session.")
)

func (out metricsOf) kernel(k *stats.KernelFigures) {
	for _, f := range k.Filtered {
		out.count(filtered, f.Datagrams, f.Hook, f.Verdict)
	}
	out.set(known, float64(k.Known))
	out.count(forwarded, k.ForwardedUp.Messages, "client")
	out.count(forwarded, k.ForwardedDown.Messages, "server")
	out.count(limited, k.Limited)
}

// Limits of scrapes. A scrape costs each loop a few microseconds, however many sessions there are.
const (
	scrapesAtOnce = 4
	scrapeTime    = 5 * time.Second
)

// metrics answers scrapes. Each asks the loops for their totals; nothing is cached.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{&s.Options},
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTime,
		// If a loop does not answer, tidegate_up is 0; the other metrics are still useful.
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// Metrics of each configured server. Servers that discovery found count together, as stats.OtherServers.
var (
	serverUp       = gauge("server_up", "1 if the server is up.", "upstream", "server")
	serverSessions = gauge("server_sessions", "Sessions at the server.", "upstream", "server")
	serverJoins    = counter("server_joins_total",
		"Connections to the server, by result: established, or the reason of the refusal.", "upstream", "server", "result")
	serverCheck = newFamily(0, "server_check_seconds", "Round-trip times of passed health checks.",
		"upstream", "server")
	serverChecksFailed = counter("server_checks_failed_total", "Failed health checks.", "upstream", "server")
	serverRTT          = newFamily(0, "server_rtt_seconds",
		"Round-trip times of the sessions at the server, as sampled.", "upstream", "server", "side")
	serverResent = counter("server_messages_resent_total",
		"Repeated transmissions of messages of the sessions at the server.", "upstream", "server", "side")
	serverLost = counter("server_lost_total",
		"Messages or datagrams of the sessions at the server that did not arrive the first time.",
		"upstream", "server", "side")
)

func (out metricsOf) servers(tallies []*stats.ServerTally) {
	for _, t := range tallies {
		of := []string{t.Upstream, t.Server}
		out.count(serverJoins, t.Joined, t.Upstream, t.Server, "established")
		for why, n := range t.Refused {
			if n > 0 { // most are zero
				out.count(serverJoins, n, t.Upstream, t.Server, codec.Reason(why).String())
			}
		}
		if t.Checks.Count()+t.FailedChecks > 0 {
			out.histogram(serverCheck, &t.Checks, of...)
			out.count(serverChecksFailed, t.FailedChecks, of...)
		}
		out.leg(t, "client", &t.ToClients)
		out.leg(t, "server", &t.ToServer)
	}
}

// leg sends one side's metrics of a server. A relayed session has none.
func (out metricsOf) leg(t *stats.ServerTally, side string, l *stats.Leg) {
	if l.RTT.Count() == 0 {
		return
	}
	out.histogram(serverRTT, &l.RTT, t.Upstream, t.Server, side)
	out.count(serverResent, l.Resent, t.Upstream, t.Server, side)
	out.count(serverLost, l.Lost, t.Upstream, t.Server, side)
}

// queues sends a histogram of queued bytes.
func (out metricsOf) queues(side string, q *stats.Sizes) {
	upTo, all := q.Cumulative()
	out <- prometheus.MustNewConstHistogram(queueSize.desc, all, float64(q.Sum), upTo, side)
}

// serverKey names a server in metrics. Upstreams of a listener with many ports are one.
type serverKey struct{ upstream, server string }

// serverState is the sum over the servers with one key.
type serverState struct {
	up       bool
	sessions int
}

// serverStates sends the health and the sessions of each server.
func (out metricsOf) serverStates(all []proxy.UpstreamStatus) {
	sums := make(map[serverKey]serverState)
	for i := range all {
		for j := range all[i].Servers {
			s := &all[i].Servers[j]
			key := serverKey{configured(all[i].Name), stats.OtherServers}
			if s.Configured {
				key.server = s.Addr.String()
			}
			if _, known := sums[key]; !known && len(sums) >= stats.MaxServers {
				key.server = stats.OtherServers
			}
			sum := sums[key]
			sums[key] = serverState{sum.up || s.State == upstream.Up, sum.sessions + s.Sessions}
		}
	}
	for key, sum := range sums {
		out.set(serverUp, truth(sum.up), key.upstream, key.server)
		out.set(serverSessions, float64(sum.sessions), key.upstream, key.server)
	}
}
