package daemon

import (
	"strconv"

	"github.com/rs/zerolog"

	"tidegate/internal/setup"
)

// newModules returns the modules of the process. What they say and their failures are logged: in a loop, about one line
// of each a second.
func newModules(log zerolog.Logger) *setup.Modules {
	return &setup.Modules{
		Failed: func(route, module string, err error) {
			log.Error().Str("route", route).Str("module", module).Err(err).Msg("module failed; it starts again")
		},
		Says: func(route, module string, session uint64, text []byte, suppressed uint64) {
			log.Info().Str("route", route).Str("module", module).Str("session", strconv.FormatUint(session, 10)).
				Bytes("text", text).Uint64("suppressed", suppressed).Msg("module says")
		},
	}
}

// warnInterpreted warns if modules are slow here.
func warnInterpreted(log zerolog.Logger, m *setup.Modules) {
	if name := m.Interpreted(); name != "" {
		log.Warn().Str("module", name).Str("remedy", setup.CompileRemedy).
			Msg("modules are interpreted, 10 to 50 times slower: the system gives no executable memory")
	}
}
