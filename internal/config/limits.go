package config

import "reflect"

// Limits bounds sessions and durations, over all listeners together.
type Limits struct {
	Sessions int `toml:"sessions" default:"10000" min:"1" max:"1000000"`
	// Sessions of one address (package source), and four times as many of its network.
	SessionsPerAddress int `toml:"sessions_per_address" default:"128" min:"1" max:"1000000"`
	HalfOpen           int `toml:"half_open" default:"1000" min:"1" max:"1000000"` // before the end of their handshake
	HalfOpenPerAddress int `toml:"half_open_per_address" default:"100" min:"1" max:"1000000"`

	// Memory of unfinished and early messages, and of data of handshakes.
	HeldBytes Size `toml:"held_bytes" default:"256MiB" min:"1MiB" max:"1024GiB"`

	HandshakeTimeout Duration `toml:"handshake_timeout" default:"10s" min:"1s" max:"5m"`
	IdleTimeout      Duration `toml:"idle_timeout" default:"30s" min:"1s" max:"24h"`
	DrainGrace       Duration `toml:"drain_grace" min:"0s" max:"24h"`               // for sessions to end at shutdown
	DrainTimeout     Duration `toml:"drain_timeout" default:"2s" min:"0s" max:"1h"` // for goodbyes at shutdown
	// Answers per second to strangers that are larger than the question, for each listener.
	PingAnswers int `toml:"ping_answers" default:"2000" min:"1" max:"1000000"`
	// Bytes per second, on the wire, to clients that have not proved their address.
	UnprovedBytes   Size     `toml:"unproved_bytes" default:"32MiB" min:"256KiB" max:"1GiB"`
	TrustedNetworks []Prefix `toml:"trusted_networks"` // networks without forged addresses
}

// Amounts returns the keys that are numbers or sizes, with their values.
func (l *Limits) Amounts() map[string]int {
	amounts, of := make(map[string]int), reflect.ValueOf(*l)
	for i := range of.NumField() {
		key := of.Type().Field(i).Tag.Get("toml")
		switch v := of.Field(i).Interface().(type) {
		case int:
			amounts[key] = v
		case Size:
			amounts[key] = int(v)
		}
	}
	return amounts
}

// SessionCost is the memory in bytes of a session between RakNet and RakNet, the most expensive one.
const SessionCost = 14 << 10

// doorsCost is the memory in bytes that connections to the admin server and the embedded NATS server can take.
const doorsCost = 32 << 20

// joinsCost is the memory in bytes that the HTTP connections of NetherNet's clients can take at all listeners.
const joinsCost = 32 << 20
