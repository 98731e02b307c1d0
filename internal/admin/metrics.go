package admin

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of scrapes. Each costs a loop a few microseconds, however many sessions it has.
const (
	scrapesAtOnce = 4
	scrapeTime    = 5 * time.Second
)

// metrics answers scrapes. Each asks the loops for their totals; nothing is kept in between.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{proxy: s.Proxy, reloads: s.Reloads, build: [2]string{s.Version, runtime.Version()}},
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeTime,
		// A loop that does not answer is a fault of its own metric, tidegate_up; the rest is still worth having.
		ErrorHandling: promhttp.ContinueOnError,
	})
}
