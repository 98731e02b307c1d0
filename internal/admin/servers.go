package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/stats"
)

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
