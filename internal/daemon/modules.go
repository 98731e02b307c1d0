package daemon

import (
	"github.com/rs/zerolog"

	"tidegate/internal/setup"
)

// newModules returns the modules of the process, whose failures are logged. A module of a loop fails about once a
// second at most.
func newModules(log zerolog.Logger) *setup.Modules {
	return &setup.Modules{Failed: func(route, module string, err error) {
		log.Error().Str("route", route).Str("module", module).Err(err).Msg("module failed; it starts again")
	}}
}

// warnInterpreted warns if modules are slow here.
func warnInterpreted(log zerolog.Logger, m *setup.Modules) {
	if name := m.Interpreted(); name != "" {
		log.Warn().Str("module", name).Msg("modules are interpreted, which is slow: the system gives no executable memory " +
			"(MemoryDenyWriteExecute of systemd), or has no compiler")
	}
}
