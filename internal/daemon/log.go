package daemon

import (
	"io"
	"log"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
)

// newLog returns a logger that writes to a queue: text for people on a terminal, JSON for a program, unless the
// configuration chooses. Messages of Go's own log go there too.
func newLog(c *config.Config, q *LogQueue, terminal bool) zerolog.Logger {
	direct := logTo(c, q.w, terminal)
	tell := func(lost uint64) { direct.Warn().Uint64("lines", lost).Msg("log lines lost") }
	q.resumed.Store(&tell)
	logger := logTo(c, q, terminal)
	zerolog.ErrorHandler = func(error) { q.lost.Add(1) } // which by default prints to standard error, and may block
	log.SetFlags(0)
	log.SetOutput(otherLog{logger})
	return logger
}

// otherLog logs the messages of packages that use Go's own log.
type otherLog struct{ log zerolog.Logger }

func (l otherLog) Write(line []byte) (int, error) {
	l.log.Warn().Str("text", strings.TrimSpace(string(line))).Msg("message of a library")
	return len(line), nil
}

func logTo(c *config.Config, w io.Writer, terminal bool) zerolog.Logger {
	human := c.Log.Format == config.FormatHuman
	if c.Log.Format == config.FormatAuto {
		human = terminal
	}
	if human {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	level := map[config.LogLevel]zerolog.Level{
		config.Debug: zerolog.DebugLevel, config.Info: zerolog.InfoLevel,
		config.Warn: zerolog.WarnLevel, config.Error: zerolog.ErrorLevel,
	}[c.Log.Level]
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}
