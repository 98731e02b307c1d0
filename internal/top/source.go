package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prom "github.com/prometheus/common/model"

	"tidegate/internal/admin"
)

// source reads the API of a proxy. It is not safe for concurrent use.
type source struct {
	client *admin.Client
	before scrape
	at     time.Time
}

// listed is the number of sessions up to which the round trips are those of all of them. With more, they are those of
// the sessions that the proxy has looked at in the meantime.
const listed = 2000

// interval is the time between two samples.
const interval = time.Second

// read returns a sample.
func (s *source) read(ctx context.Context, now time.Time) (sample Sample, err error) {
	after, err := s.scrape(ctx)
	if err != nil {
		return sample, err
	}
	var over time.Duration
	if s.before != nil {
		over = now.Sub(s.at)
	}
	sample = sampleOf(s.before, after, over)
	sample.At = now
	s.before, s.at = after, now
	if sample.Servers, err = s.servers(ctx); err == nil && sample.Sessions+sample.HalfOpen <= listed {
		sample.Client.RTT, sample.Server.RTT, err = s.meanRTTs(ctx)
	}
	return sample, err
}

// meanRTTs returns the means of the known round trips in milliseconds.
func (s *source) meanRTTs(ctx context.Context) (client, server float64, err error) {
	var all admin.Sessions
	if err := s.client.Get(ctx, fmt.Sprint("/api/v1/sessions?limit=", listed), &all); err != nil {
		return 0, 0, err
	}
	var clients, servers float64
	for i := range all.Sessions {
		one := &all.Sessions[i]
		client, server = client+one.Client.RTT, server+one.Server.RTT
		if one.Client.RTT > 0 {
			clients++
		}
		if one.Server.RTT > 0 {
			servers++
		}
	}
	return client / max(clients, 1), server / max(servers, 1), nil
}

func (s *source) servers(ctx context.Context) (all []Server, err error) {
	var list admin.Upstreams
	if err := s.client.Get(ctx, "/api/v1/upstreams", &list); err != nil {
		return nil, err
	}
	all = []Server{}
	for _, u := range list.Upstreams {
		for _, server := range u.Servers {
			all = append(all, Server{u.Name, server})
		}
	}
	return all, nil
}

// scrape is the answer to a scrape of metrics, by name.
type scrape map[string]*dto.MetricFamily

func (s *source) scrape(ctx context.Context) (scrape, error) {
	text, err := s.client.Stream(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = text.Close() }()
	return parse(text)
}

func parse(text io.Reader) (scrape, error) {
	parser := expfmt.NewTextParser(prom.UTF8Validation)
	all, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return all, nil
}

// sum adds up the values of a metric's series that have the given labels, as name and value in turn.
func (s scrape) sum(name string, labels ...string) (sum float64) {
	for _, m := range s["tidegate_"+name].GetMetric() {
		if hasLabels(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return sum
}

func hasLabels(m *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if labelOf(m, labels[i]) != labels[i+1] {
			return false
		}
	}
	return true
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// sampleOf returns the state after a scrape, with rates since the scrape before it. Without one there are no rates.
func sampleOf(before, after scrape, over time.Duration) (s Sample) {
	rate := func(name string, labels ...string) float64 {
		if over <= 0 {
			return 0
		}
		return max(after.sum(name, labels...)-before.sum(name, labels...), 0) / over.Seconds()
	}
	traffic := func(name, bytes string, labels ...string) Traffic {
		return Traffic{rate(name, labels...), rate(bytes, labels...)}
	}
	leg := func(side string) Leg {
		return Leg{
			RTT: meanOf(before, after, side), Resent: rate("messages_resent_total", "side", side),
			Lost:   rate("lost_total", "side", side),
			Queued: after.sum("queued_bytes", "side", side),
		}
	}
	s = Sample{
		Over:     over.Seconds(),
		Sessions: after.sum("sessions", "state", "established"), HalfOpen: after.sum("sessions", "state", "half-open"),
		Joins: rate("handshakes_total", "result", "established"), JoinsFailed: rate("handshakes_total", "result", "failed"),
		Ended:       rate("sessions_ended_total"),
		FromClients: traffic("messages_total", "message_bytes_total", "from", "client"),
		FromServers: traffic("messages_total", "message_bytes_total", "from", "server"),
		ClientIn:    traffic("datagrams_total", "datagram_bytes_total", "side", "client", "direction", "in"),
		ClientOut:   traffic("datagrams_total", "datagram_bytes_total", "side", "client", "direction", "out"),
		ServerIn:    traffic("datagrams_total", "datagram_bytes_total", "side", "server", "direction", "in"),
		ServerOut:   traffic("datagrams_total", "datagram_bytes_total", "side", "server", "direction", "out"),
		Client:      leg("client"), Server: leg("server"),
		Dropped: rate("dropped_total"), Bans: after.sum("bans"), Drops: dropsOf(before, after, over),
	}
	for _, m := range after["tidegate_turn_longest_seconds"].GetMetric() {
		s.LongestTurn = max(s.LongestTurn, 1000*m.GetGauge().GetValue())
	}
	return s
}

// meanOf returns the mean round trip of a side in milliseconds, as sampled since the scrape before.
func meanOf(before, after scrape, side string) float64 {
	count, sum := after.rtt(side)
	earlier, earlierSum := before.rtt(side)
	if count <= earlier {
		return 0
	}
	return 1000 * (sum - earlierSum) / float64(count-earlier)
}

func (s scrape) rtt(side string) (count uint64, sum float64) {
	for _, m := range s["tidegate_rtt_seconds"].GetMetric() {
		if labelOf(m, "side") == side {
			count, sum = count+m.GetHistogram().GetSampleCount(), sum+m.GetHistogram().GetSampleSum()
		}
	}
	return count, sum
}

// dropsOf returns the drops by reason. Reasons without a drop are left out.
func dropsOf(before, after scrape, over time.Duration) []Drop {
	all := []Drop{}
	index := make(map[string]int)
	for _, m := range after["tidegate_dropped_total"].GetMetric() {
		reason := labelOf(m, "reason")
		if _, known := index[reason]; known || after.sum("dropped_total", "reason", reason) == 0 {
			continue
		}
		index[reason] = len(all)
		d := Drop{Reason: reason, Total: after.sum("dropped_total", "reason", reason)}
		if over > 0 {
			d.Rate = max(d.Total-before.sum("dropped_total", "reason", reason), 0) / over.Seconds()
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Drop) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
