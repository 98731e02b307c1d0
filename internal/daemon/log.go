package daemon

import (
	"io"
	"log"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
)

// Both hold for the process: other services' goroutines may log while a service starts.
func init() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.ErrorHandler = func(error) {} // the default prints to standard error, which may block
}

// newLog returns a logger that writes to a queue. The format is text on a terminal and otherwise JSON, unless the
// configuration chooses. The messages of Go's log package go there too.
func newLog(c *config.Config, q *LogQueue, terminal bool) zerolog.Logger {
	direct := logTo(c, pastQueue{q}, terminal)
	report := func(lost uint64) { direct.Warn().Uint64("lines", lost).Msg("log lines lost") }
	q.resumed.Store(&report)
	logger := logTo(c, q, terminal)
	log.SetFlags(0)
	log.SetOutput(libraryLog{logger})
	return logger
}

// pastQueue writes to a queue's log at once, and counts lines that cannot be written.
type pastQueue struct{ q *LogQueue }

func (p pastQueue) Write(line []byte) (int, error) {
	n, err := p.q.w.Write(line)
	if err != nil {
		p.q.lost.Add(1)
	}
	return n, err
}

// libraryLog logs the messages of libraries that use Go's log package.
type libraryLog struct{ log zerolog.Logger }

func (l libraryLog) Write(line []byte) (int, error) {
	l.log.Warn().Str("text", strings.TrimSpace(string(line))).Msg("library message")
	return len(line), nil
}

// LogFailure logs the error of Run, if the log is JSON: a program reads every line of it then. It reports whether it
// has done so.
func (o *Options) LogFailure(err error) bool {
	if isHuman(o.Config, o.Terminal) {
		return false
	}
	log := newLog(o.Config, o.Log, o.Terminal)
	log.Error().Err(err).Msg("tidegate failed")
	return true
}

// isHuman reports whether the log is text for people.
func isHuman(c *config.Config, terminal bool) bool {
	return c.Log.Format == config.FormatHuman || c.Log.Format == config.FormatAuto && terminal
}

func logTo(c *config.Config, w io.Writer, terminal bool) zerolog.Logger {
	if isHuman(c, terminal) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000"}
	}
	level, _ := zerolog.ParseLevel(string(c.Log.Level)) // the words are the same
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// warnBuffers warns of receive buffers that are smaller than configured.
func warnBuffers(log zerolog.Logger, c *config.Config) {
	for _, s := range setup.BufferShortfalls(c, netio.GrantedBuffer) {
		log.Warn().Str("key", s.Key).Stringer("asked", s.Asked).Stringer("given", s.Given).Str("remedy", s.Remedy()).
			Msg("receive buffer is smaller than configured")
	}
}

// logListeners logs the addresses of the configured listeners. The argument addrs has an address for each port.
func logListeners(log zerolog.Logger, c *config.Config, addrs []netip.AddrPort) {
	for _, l := range c.Listeners {
		ports := l.Address.Ports()
		event := log.Info().Str("listener", l.Name).Stringer("address", addrs[0])
		if ports > 1 {
			event = event.Int("ports", ports)
		}
		event.Str("transport", string(l.Transport)).Strs("protocols", l.Protocols).Str("route", l.Route).Msg("listening")
		addrs = addrs[ports:]
	}
}

// Bounds of the queue. A log line has 200 to 400 bytes.
const (
	queuedLines = 8192
	queuedBytes = 4 << 20
)

// LogQueue decouples the process from a slow log: a pipe without a reader, a stopped terminal, a full disk. Write
// never blocks and never fails. Lines beyond the bounds, and lines that cannot be written, are lost and counted. It is
// safe for concurrent use.
type LogQueue struct {
	w     io.Writer
	lines chan *logLine
	bytes atomic.Int64 // size of the queued lines
	lost  atomic.Uint64
	end   chan struct{} // closed by Close
	ended chan struct{} // closed when the queue is empty after Close
	close sync.Once

	// resumed, if not nil, is called when the log flows again after lost lines. The writing goroutine calls it.
	resumed atomic.Pointer[func(lost uint64)]
	// failed, if not nil, is called when a line cannot be written after one that could. The writing goroutine calls it.
	failed atomic.Pointer[func(error)]
}

type logLine struct{ text []byte }

// logLines are unused lines.
var logLines = sync.Pool{New: func() any { return new(logLine) }}

// NewLogQueue returns a queue in front of w. Close ends it.
func NewLogQueue(w io.Writer) *LogQueue {
	q := &LogQueue{
		w: w, lines: make(chan *logLine, queuedLines), end: make(chan struct{}), ended: make(chan struct{}),
	}
	go q.run()
	return q
}

// Write implements io.Writer. It takes whole lines.
func (q *LogQueue) Write(text []byte) (int, error) {
	size := int64(len(text))
	if q.bytes.Add(size) > queuedBytes {
		q.bytes.Add(-size)
		q.lost.Add(1)
		return len(text), nil
	}
	line := logLines.Get().(*logLine)
	line.text = append(line.text[:0], text...)
	select {
	case q.lines <- line:
	default:
		q.bytes.Add(-size)
		q.lost.Add(1)
		logLines.Put(line)
	}
	return len(text), nil
}

// Lost returns the number of lost lines.
func (q *LogQueue) Lost() uint64 { return q.lost.Load() }

// Close waits until the queue is empty, but not longer than patience. It reports whether the queue is empty. Later
// lines are lost.
func (q *LogQueue) Close(patience time.Duration) bool {
	q.close.Do(func() { close(q.end) })
	select {
	case <-q.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

func (q *LogQueue) run() {
	defer close(q.ended)
	var t lossReport
	for {
		select {
		case line := <-q.lines:
			q.write(line, &t)
		case <-q.end:
			for {
				select {
				case line := <-q.lines:
					q.write(line, &t)
				default:
					return
				}
			}
		}
	}
}

// lossReport is the part of the lost lines that the log has reported.
type lossReport struct {
	reported uint64
	seen     time.Time // time since lost lines are unreported; zero: none are
	fails    bool      // the last line could not be written
	torn     bool      // the log ends with a part of a line
}

// reportAfter is the delay of the report in a log that never catches up. A log that catches up gets the report after
// the queued lines, where the lost ones are missing.
const reportAfter = time.Second

// write writes a line. If that works, it reports lost lines.
func (q *LogQueue) write(line *logLine, t *lossReport) {
	if t.torn { // the next line must not join it
		_, err := q.w.Write([]byte("\n"))
		t.torn = err != nil
	}
	n, err := q.w.Write(line.text)
	q.bytes.Add(-int64(len(line.text)))
	logLines.Put(line)
	if tell := q.failed.Load(); err != nil && !t.fails && tell != nil {
		(*tell)(err)
	}
	if t.fails = err != nil; t.fails {
		t.torn = t.torn || n > 0
		q.lost.Add(1)
		return
	}
	lost, report := q.lost.Load(), q.resumed.Load()
	switch {
	case lost == t.reported || report == nil:
	case len(q.lines) == 0 || !t.seen.IsZero() && time.Since(t.seen) >= reportAfter:
		(*report)(lost - t.reported)
		t.reported, t.seen = lost, time.Time{}
	case t.seen.IsZero():
		t.seen = time.Now()
	}
}
