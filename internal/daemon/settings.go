package daemon

import (
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/proxy"
	"tidegate/proxy/relay/recording"
)

func options(c *config.Config, loops int, log, access zerolog.Logger) proxy.Options {
	o := proxy.Options{
		Loops: loops,
		IO: netio.Options{
			Backend:       backend(c),
			MaxBatchDelay: time.Duration(c.Loop.MaxBatchDelay),
		},
		ReceiveBuffer: int(c.Loop.ReceiveBuffer),
		Log:           log,
		Access:        access,
		HideAddresses: !c.Log.PlayerAddresses,
	}
	if c.Record.Last > 0 {
		o.Machine.Recorder = recording.NewRecorder(loops, int(c.Record.Memory))
	}
	return o
}

func backend(c *config.Config) netio.Backend {
	return map[config.Backend]netio.Backend{
		config.BackendAuto: netio.Auto, config.BackendEpoll: netio.Epoll, config.BackendPortable: netio.Portable,
	}[c.Loop.Backend]
}

// loopCount returns the number of loops. More loops cause more wake-ups, so one is best for a small machine
// (docs/benchmarks.md). Where loops cannot share a port there is only one.
func loopCount(asked, cores int, sharesPorts bool) int {
	switch {
	case !sharesPorts:
		return 1
	case asked > 0:
		return asked
	}
	return max(1, cores/2)
}
