package config

// Log configures the log.
type Log struct {
	Level           LogLevel  `toml:"level"`
	Format          LogFormat `toml:"format"`
	PlayerAddresses bool      `toml:"player_addresses"` // false: players' addresses are redacted
	// one line of JSON for each session; empty: none
	AccessFile string `toml:"access_file"`
	// a file of this size is renamed, and a new one begun
	AccessSize  Size `toml:"access_size" min:"1MiB" max:"1GiB"`
	AccessFiles int  `toml:"access_files" min:"1" max:"1000"` // renamed files that are kept
}

// LogLevel is the lowest severity that is logged.
type LogLevel string

// Log levels.
const (
	Debug LogLevel = "debug"
	Info  LogLevel = "info"
	Warn  LogLevel = "warn"
	Error LogLevel = "error"
)

// Choices lists the words of the configuration.
func (LogLevel) Choices() []string { return choices(Debug, Info, Warn, Error) }

// LogFormat is the form of log lines.
type LogFormat string

// Log formats.
const (
	FormatAuto  LogFormat = "auto"  // human on a terminal, json elsewhere
	FormatHuman LogFormat = "human" // a colored line for each entry
	FormatJSON  LogFormat = "json"  // a JSON object for each entry
)

// Choices lists the words of the configuration.
func (LogFormat) Choices() []string { return choices(FormatAuto, FormatHuman, FormatJSON) }

// Loop configures the loops that carry the datagrams.
type Loop struct {
	Count         int      `toml:"count" min:"0" max:"1024"` // 0: automatic
	Backend       Backend  `toml:"backend"`
	MaxBatchDelay Duration `toml:"max_batch_delay" min:"0s" max:"100ms"`  // of a turn under a steady load
	ReceiveBuffer Size     `toml:"receive_buffer" min:"64KiB" max:"1GiB"` // of each listening socket, in the kernel
}

// Backend is the interface between a loop and the kernel.
type Backend string

// Backends.
const (
	BackendAuto     Backend = "auto"     // epoll on Linux, portable elsewhere
	BackendEpoll    Backend = "epoll"    // batched system calls, Linux only
	BackendPortable Backend = "portable" // Go's own sockets
)

// isPortable reports whether the loops of a system use Go's own sockets.
func (l *Loop) isPortable(system string) bool {
	return l.Backend == BackendPortable || l.Backend == BackendAuto && system != "linux"
}

// Choices lists the words of the configuration.
func (Backend) Choices() []string { return choices(BackendAuto, BackendEpoll, BackendPortable) }

func (v *validator) loop() {
	if v.Loop.Count > 1 && v.Loop.Backend == BackendPortable {
		v.fault("loop.count", v.Loop.Count, `1, or loop.backend = "auto": portable sockets cannot share a port between loops`)
	}
}
