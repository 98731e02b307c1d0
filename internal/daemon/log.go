package daemon

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
)

// newLog returns a logger to w: text for people on a terminal, JSON for a program, unless the configuration chooses.
func newLog(c *config.Config, w io.Writer, terminal bool) zerolog.Logger {
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
