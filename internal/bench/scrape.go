package bench

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

// Scrape is what it takes to ask a subject for its metrics.
type Scrape struct {
	Sessions int     `json:"sessions"` // that the metrics tell of, established ones
	Bytes    int     `json:"bytes"`
	Millis   float64 `json:"ms"` // the median of scrapes
}

// scrapes is how often a subject is asked in a row.
const scrapes = 9

// scrape asks for metrics, and tells nothing of a subject that has none.
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

// metricsOf asks for metrics. They are nil of a subject that has none.
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

// established is how many sessions metrics tell of.
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
		_, of, _ := strings.Cut(","+labels, ","+label+`="`)
		of, _, ok = strings.Cut(of, `"`)
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && n > 0 {
			by[of] += n
		}
	}
	return by
}

// whyFewer says what metrics know of sessions that are missing: datagrams that were dropped, and sessions that have
// ended.
func whyFewer(metrics []byte) string {
	var known []string
	for _, what := range []struct{ text, metric string }{
		{"dropped", "tidegate_dropped_total"}, {"ended", "tidegate_sessions_ended_total"},
	} {
		by := sums(metrics, what.metric, "reason")
		for _, reason := range slices.Sorted(maps.Keys(by)) {
			known = append(known, fmt.Sprintf("%.0f %s as %s", by[reason], what.text, reason))
		}
	}
	if len(known) == 0 {
		return "nothing was dropped, no session has ended"
	}
	return strings.Join(known, ", ")
}

// fewer completes the error of a load that did not get all its sessions with what the subject knows of it.
func (s *subject) fewer(err error) error {
	err = fmt.Errorf("%w (a socket for each session takes descriptors: ulimit -n)", err)
	if !s.admin.IsValid() {
		return err
	}
	metrics, missing := metricsOf(s.admin)
	if metrics == nil {
		return errors.Join(err, missing)
	}
	return fmt.Errorf("%w: %s", err, whyFewer(metrics))
}

// scrapeIdle is a scrape of a subject without sessions, in a process of its own: what is measured of others' memory
// shall not have it in it.
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
