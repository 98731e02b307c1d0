package daemon

import (
	"io"
	"log"
	"net/netip"
	"strings"

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
