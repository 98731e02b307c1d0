package daemon

import (
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"
	"gopkg.in/natefinch/lumberjack.v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
)

// Bounds of the access log: renamed files that are kept, and the MiB of each.
const accessFiles, accessSize = 5, 64

// accessWait bounds the time in which the last lines of the access log are written.
const accessWait = 2 * time.Second

// openAccessLog returns the logger for the access log, which writes behind a queue: a slow disk stops no loop. A file
// of a size in MiB is renamed, and a new one begun. Without a file it returns the zero Logger, which writes nothing.
// The function end writes the last lines.
func openAccessLog(c *config.Config, size int, log zerolog.Logger, events *admin.Events) (access zerolog.Logger,
	end func(), err error) {
	path := c.Path(c.Log.AccessFile)
	if path == "" {
		return access, func() {}, nil
	}
	probe, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) // to fail now, not at the first session
	if err == nil {
		err = probe.Close()
	}
	if err != nil {
		return access, nil, fmt.Errorf("log.access_file: %w", err)
	}
	file := &lumberjack.Logger{Filename: path, MaxSize: size, MaxBackups: accessFiles}
	queue := NewLogQueue(file)
	report := func(lost uint64) { log.Warn().Uint64("lines", lost).Msg("access log lines lost") }
	queue.resumed.Store(&report)
	failed := func(err error) {
		log.Warn().Err(err).Msg("access log not written")
		events.Add("disk", true, "access log not written: %v", err)
	}
	queue.failed.Store(&failed)
	end = func() {
		if !queue.Close(accessWait) {
			log.Warn().Msg("access log: the last lines are lost")
		}
		if err := file.Close(); err != nil {
			log.Warn().Err(err).Msg("access log not closed")
		}
	}
	return zerolog.New(queue).With().Timestamp().Logger(), end, nil
}
