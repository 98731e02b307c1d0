//go:build interop && soak && linux

package interop_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figures are the values of one scrape, by name and labels.
type figures map[string]float64

// scraper reads the metrics of a proxy at its admin socket.
type scraper struct{ http.Client }

func newScraper(socket string) *scraper {
	return &scraper{http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// read returns the figures, or nil if a loop did not answer in time.
func (s *scraper) read(t *testing.T) figures {
	t.Helper()
	answer, err := s.Get("http://localhost/metrics")
	if err != nil {
		t.Fatalf("the proxy does not answer: %v", err)
	}
	defer answer.Body.Close()
	f, err := parseFigures(answer.Body)
	if err != nil {
		t.Fatalf("metrics: %v", err)
	}
	if f["tidegate_up"] != 1 {
		return nil
	}
	return f
}

func parseFigures(r io.Reader) (figures, error) {
	f := make(figures)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		f[line[:at]] = value
	}
	return f, lines.Err()
}

// sum adds the values of a metric whose labels hold all given ones, such as side="client".
func (f figures) sum(metric string, labels ...string) (sum float64) {
next:
	for name, value := range f {
		bare, rest, _ := strings.Cut(name, "{")
		if bare != metric {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue next
			}
		}
		sum += value
	}
	return sum
}

// flatFigure is a figure that must not grow. The median of the last quarter may be higher than that of the second one
// by a share, and by an amount besides, which covers the noise of small figures.
type flatFigure struct {
	name   string
	of     func(f figures) float64
	amount float64
}

const flatShare = 0.1

// flatFigures are the figures of the process, and one for each of the proxy's tables.
func flatFigures(first figures) []flatFigure {
	plain := func(name string, amount float64) flatFigure {
		return flatFigure{name, func(f figures) float64 { return f.sum(name) }, amount}
	}
	all := []flatFigure{
		plain("process_resident_memory_bytes", 8<<20),
		plain("go_memstats_heap_inuse_bytes", 8<<20),
		plain("go_memstats_stack_inuse_bytes", 2<<20),
		plain("go_goroutines", 4),
		plain("go_threads", 4),
		plain("process_open_fds", 32),
		plain("tidegate_sessions", 32),
		plain("tidegate_kernel_known", 32),
		plain("tidegate_bans", 4),
		plain("tidegate_upstream_sessions", 32),
		plain("tidegate_queued_bytes", 64<<10),
		plain("tidegate_held_bytes", 64<<10),
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if strings.HasPrefix(name, "tidegate_table_entries{") {
			all = append(all, flatFigure{name, func(f figures) float64 { return f[name] }, 32})
		}
	}
	return all
}

// trend is one figure over a run.
type trend struct {
	Name              string
	Early, Late, Most float64 // medians of the second and the last quarter, and the largest value
	Flat              bool
}

func trendOf(one flatFigure, samples []figures) trend {
	values := make([]float64, len(samples))
	for i, f := range samples {
		values[i] = one.of(f)
	}
	quarter := len(values) / 4
	tr := trend{Name: one.name, Early: middle(values[quarter : 2*quarter]), Late: middle(values[3*quarter:])}
	tr.Most = slices.Max(values)
	tr.Flat = tr.Late <= tr.Early*(1+flatShare)+one.amount
	return tr
}

// middle returns the median.
func middle(values []float64) float64 {
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare[float64])
	return sorted[len(sorted)/2]
}

// TestTrend shows that a figure that grows by more than its bound is found, and noise is not.
func TestTrend(t *testing.T) {
	of := flatFigure{"x", func(f figures) float64 { return f["x"] }, 10}
	run := func(value func(i int) float64) trend {
		var samples []figures
		for i := range 100 {
			samples = append(samples, figures{"x": value(i)})
		}
		return trendOf(of, samples)
	}
	for name, c := range map[string]struct {
		value func(i int) float64
		flat  bool
	}{
		"constant":          {func(int) float64 { return 500 }, true},
		"noise":             {func(i int) float64 { return 500 + 40*float64(i%3) }, true},
		"warm-up":           {func(i int) float64 { return float64(min(20*i, 500)) }, true},
		"one peak":          {func(i int) float64 { return 500 + 5000*float64(i/99) }, true},
		"grows by a third":  {func(i int) float64 { return 500 + 2.5*float64(i) }, false},
		"small, and grows":  {func(i int) float64 { return 0.3 * float64(i) }, false},
		"falls":             {func(i int) float64 { return 500 - float64(i) }, true},
		"grows at the last": {func(i int) float64 { return 500 + 300*float64(i/80) }, false},
	} {
		if got := run(c.value); got.Flat != c.flat {
			t.Errorf("%s: %+v, want flat to be %v", name, got, c.flat)
		}
	}
}

// longestTurn returns the longest turn of the proxy's loops that the samples have seen, in seconds.
func longestTurn(samples []figures) (longest float64) {
	for _, f := range samples {
		for name, seconds := range f {
			if strings.HasPrefix(name, "tidegate_turn_longest_seconds{") {
				longest = max(longest, seconds)
			}
		}
	}
	return longest
}

// sampleEvery is the interval of the samples: at least 80 of them in a run.
func sampleEvery(run time.Duration) time.Duration {
	return min(max(run/80, 250*time.Millisecond), 5*time.Second)
}
