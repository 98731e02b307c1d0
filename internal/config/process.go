package config

// Log configures the log.
type Log struct {
	Level           LogLevel  `toml:"level" default:"info"`
	Format          LogFormat `toml:"format" default:"auto"`
	PlayerAddresses bool      `toml:"player_addresses" default:"true"` // false: players' addresses are redacted
	// one line of JSON for each session; empty: none
	AccessFile string `toml:"access_file"`
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
	Backend       Backend  `toml:"backend" default:"auto"`
	MaxBatchDelay Duration `toml:"max_batch_delay" default:"75us" min:"0s" max:"100ms"`  // of a turn in a steady load
	ReceiveBuffer Size     `toml:"receive_buffer" default:"2MiB" min:"64KiB" max:"1GiB"` // of listening sockets
}

// Backend is the interface between a loop and the kernel.
type Backend string

// Backends.
const (
	BackendAuto     Backend = "auto"     // epoll on Linux, portable elsewhere
	BackendEpoll    Backend = "epoll"    // batched system calls, Linux only
	BackendPortable Backend = "portable" // Go's own sockets
)

// Choices lists the words of the configuration.
func (Backend) Choices() []string { return choices(BackendAuto, BackendEpoll, BackendPortable) }

// Kernel configures the use of kernel features. Where the kernel lacks them, Tidegate does the work itself.
type Kernel struct {
	Filter KernelUse `toml:"filter" default:"auto"` // drops datagrams before each listener's socket
	// of one source per second, enforced by the filters; 0: unbounded
	PacketRate int       `toml:"packet_rate" default:"50000" min:"0" max:"10000000"`
	XDP        []string  `toml:"xdp"`                    // interfaces that drop even earlier
	Forward    KernelUse `toml:"forward" default:"auto"` // forwards datagrams of routes in mode "relay"
}

// KernelUse says whether a kernel feature is used.
type KernelUse string

// Uses.
const (
	KernelAuto KernelUse = "auto" // if available
	KernelOff  KernelUse = "off"
)

// Choices lists the words of the configuration.
func (KernelUse) Choices() []string { return choices(KernelAuto, KernelOff) }

// longestInterface is the length in bytes of the longest name of an interface in Linux.
const longestInterface = 15

// Record configures the black boxes, which keep the last datagrams of all sessions.
type Record struct {
	// age of the oldest datagram that is kept; 0: nothing is recorded
	Last   Duration `toml:"last" min:"0s" max:"10m"`
	Memory Size     `toml:"memory" default:"64MiB" min:"4MiB" max:"16GiB"` // of all loops together
	// for files of sessions that end in an abnormal way; empty: none are saved
	Directory string `toml:"directory"`
}

// FilesSize bounds all files of sessions together.
func (r *Record) FilesSize() Size { return 4 * r.Memory }

// Bans configures the ban file and the duration of bans that Tidegate itself imposes. Operators may impose longer ones.
type Bans struct {
	File    string   `toml:"file" default:"bans.jsonl"`                 // beside the configuration; empty: none
	First   Duration `toml:"first" default:"10m" min:"1s" max:"366d"`   // each further ban of a network is twice as long
	Longest Duration `toml:"longest" default:"24h" min:"1s" max:"366d"` // after its end, a ban still counts for this long
}
