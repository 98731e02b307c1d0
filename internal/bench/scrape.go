package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
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
		answer, err := http.Get(fmt.Sprintf("http://%v/metrics", admin))
		if err != nil {
			return nil, err
		}
		text, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close() // it was read
		if err != nil {
			return nil, fmt.Errorf("metrics at %v: %w", admin, err)
		}
		if answer.StatusCode != http.StatusOK {
			return nil, nil
		}
		times = append(times, float64(time.Since(began))/float64(time.Millisecond))
	}
	return &Scrape{Sessions: established(text), Bytes: len(text), Millis: median(times)}, nil
}

// established is how many sessions metrics tell of.
func established(metrics []byte) (sessions int) {
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "tidegate_sessions{") &&
			strings.Contains(name, `state="established"`) {
			sessions += int(n)
		}
	}
	return sessions
}

// scrapeIdle is a scrape of a subject without sessions, in a process of its own: what is measured of others' memory shall not
// have it in it.
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
