package scenario

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scrape is the cost of a scrape of a subject's metrics.
type Scrape struct {
	Sessions int     `json:"sessions"` // established sessions in the metrics
	Bytes    int     `json:"bytes"`
	Millis   float64 `json:"ms"` // median of several scrapes
}

// scrapes is the number of scrapes in a row.
const scrapes = 9

// scrape scrapes the metrics several times. It returns nil for a subject without metrics.
func scrape(admin netip.AddrPort) (*Scrape, error) {
	var times []float64
	var text []byte
	for range scrapes {
		began := time.Now()
		var err error
		if text, err = metricsOf(admin); text == nil || err != nil {
			return nil, err
		}
		times = append(times, float64(time.Since(began))/float64(time.Millisecond))
	}
	return &Scrape{Sessions: established(text), Bytes: len(text), Millis: median(times)}, nil
}

// metricsOf returns the metrics of a process, or nil without metrics.
func metricsOf(admin netip.AddrPort) ([]byte, error) {
	answer, err := http.Get(fmt.Sprintf("http://%v/metrics", admin))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read
	if err != nil {
		return nil, fmt.Errorf("metrics at %v: %w", admin, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, nil
	}
	return text, nil
}

// established returns the number of sessions in the metrics.
func established(metrics []byte) (sessions int) {
	return int(sums(metrics, "tidegate_sessions", "state")["established"])
}

// sums adds up a metric by the values of one of its labels.
func sums(metrics []byte, metric, label string) map[string]float64 {
	by := make(map[string]float64)
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		labels, ok := strings.CutPrefix(lines.Text(), metric+"{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		_, name, _ := strings.Cut(","+labels, ","+label+`="`)
		name, _, ok = strings.Cut(name, `"`)
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && n > 0 {
			by[name] += n
		}
	}
	return by
}

// causes describes why sessions are missing, from the metrics: dropped datagrams and ended sessions.
func causes(metrics []byte) string {
	var known []string
	for _, what := range []struct{ text, metric string }{
		{"dropped", "tidegate_dropped_total"}, {"ended", "tidegate_sessions_ended_total"},
	} {
		by := sums(metrics, what.metric, "reason")
		for _, reason := range slices.Sorted(maps.Keys(by)) {
			known = append(known, fmt.Sprintf("%.0f %s: %s", by[reason], what.text, reason))
		}
	}
	if len(known) == 0 {
		return "nothing was dropped, no session ended"
	}
	return strings.Join(known, ", ")
}

// explain completes the error of a load that lacks sessions with the causes that the subject knows.
func (s *subject) explain(err error) error {
	err = fmt.Errorf("%w (each session needs a descriptor for its socket: see ulimit -n)", err)
	if !s.admin.IsValid() {
		return err
	}
	metrics, missing := metricsOf(s.admin)
	if metrics == nil {
		return errors.Join(err, missing)
	}
	return fmt.Errorf("%w: %s", err, causes(metrics))
}

// scrapeIdle scrapes a subject without sessions, in a process of its own, so that the scrape does not change the
// memory that is measured.
func (sc *scenario) scrapeIdle(o *Options, k kind, server netip.AddrPort) (*Scrape, error) {
	empty := *sc
	empty.load = func(netip.AddrPort, int) (load, error) { return newDatagramLoad(0, minSize, server) }
	s, err := empty.begin(o, k, server, 0)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if !s.admin.IsValid() {
		return nil, nil
	}
	return scrape(s.admin)
}
