package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
)

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

// Admin is the address at which operators and their programs reach a running Tidegate.
type Admin struct {
	Listen AdminAddress `toml:"listen" default:"auto"`
	Token  Secret       `toml:"token"` // every request must carry it; empty: requests need no token
}

// AdminAddress is ip:port, "unix:" and the path of a socket, or one of the words below.
type AdminAddress string

// Words in place of an address.
const (
	AdminAuto AdminAddress = "auto" // a Unix socket that only this user can reach, where the system has such sockets
	AdminOff  AdminAddress = "off"  // no admin server
)

// Secret is a text that is never shown.
type Secret string

// String hides the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

const (
	minToken   = 16  // characters, against guessing over a network
	maxToken   = 200 // characters
	socketPath = 100 // bytes that every system allows in the path of a Unix socket
)

// openToAll reports whether every user of the machine can read a file. Windows does not tell.
func openToAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// isToken reports whether a text fits into a header and is long enough.
func isToken(text string) bool {
	isInvisible := func(c rune) bool { return c <= ' ' || c > '~' }
	return len(text) >= minToken && len(text) <= maxToken && !strings.ContainsFunc(text, isInvisible)
}

// Fleet configures what several Tidegates share by NATS. It is off without Servers and Peers.
type Fleet struct {
	Name        string   `toml:"name" default:"tidegate"`
	Node        string   `toml:"node"`    // empty: the host's name
	Servers     []string `toml:"servers"` // URLs of NATS servers
	Credentials string   `toml:"credentials"`
	CA          string   `toml:"ca"`
	Certificate string   `toml:"certificate"`
	Key         string   `toml:"key"`
	Replicas    int      `toml:"replicas" default:"3"`
	Listen      string   `toml:"listen" default:"0.0.0.0:6222"` // of the embedded server, for those of the other nodes
	Peers       []string `toml:"peers"`                         // host:port of all nodes, each with a NATS server
	Secret      Secret   `toml:"secret"`                        // that the embedded servers share
	Store       string   `toml:"store" default:"fleet"`         // folder of the embedded server
	Follow      bool     `toml:"follow"`                        // players go on whose path leads to another node
	Limits      bool     `toml:"limits"`                        // those per address and network hold for all nodes
}

// On reports whether this Tidegate is part of a fleet.
func (f *Fleet) On() bool { return len(f.Servers) > 0 || f.Embedded() }

// Embedded reports whether this process runs a NATS server.
func (f *Fleet) Embedded() bool { return len(f.Peers) > 0 }

// NodeName returns the name of this node.
func (f *Fleet) NodeName() string {
	host, _ := os.Hostname() // validation has checked it
	return cmp.Or(f.Node, host)
}

// Copies returns the number of servers that keep the shared state.
func (f *Fleet) Copies() int {
	if f.Embedded() {
		return min(f.Replicas, len(f.Peers))
	}
	return f.Replicas
}

// ListenAddress returns the address of the embedded server.
func (f *Fleet) ListenAddress() netip.AddrPort {
	a, _ := netip.ParseAddrPort(f.Listen) // validation has checked it
	return a
}

// isServerURL reports whether a URL names a NATS server, and has nothing else but a user.
func isServerURL(at *url.URL) bool {
	return (at.Scheme == "nats" || at.Scheme == "tls") && isHostPort(at.Host) && at.Path == "" && at.RawQuery == ""
}

// isHostPort reports whether a text is a host, or an IP address, and a port.
func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && (isHost(host) || net.ParseIP(host) != nil)
}
