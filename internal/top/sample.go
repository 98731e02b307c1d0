// Package top samples a running proxy each second: its traffic, drops and servers, as the API tells them. Watch gives
// the samples, and Line makes a line of one.
package top

import (
	"time"

	"tidegate/internal/admin"
)

// Sample is the state of a proxy at one moment. Rates are per second since the sample before.
type Sample struct {
	At          time.Time `json:"at"`
	Over        float64   `json:"over_seconds"` // time since the sample before
	Sessions    float64   `json:"sessions"`     // established
	HalfOpen    float64   `json:"half_open"`
	Joins       float64   `json:"joins"`
	JoinsFailed float64   `json:"joins_failed"`
	Ended       float64   `json:"ended"`
	FromClients Traffic   `json:"from_clients"` // messages
	FromServers Traffic   `json:"from_servers"`
	ClientIn    Traffic   `json:"client_in"` // datagrams
	ClientOut   Traffic   `json:"client_out"`
	ServerIn    Traffic   `json:"server_in"`
	ServerOut   Traffic   `json:"server_out"`
	Client      Leg       `json:"client"`
	Server      Leg       `json:"server"`
	Dropped     float64   `json:"dropped"`
	Drops       []Drop    `json:"drops"` // by reason, the most frequent first
	Bans        float64   `json:"bans"`
	LongestTurn float64   `json:"longest_turn_ms"` // of a loop, of the last minute or two
	Servers     []Server  `json:"servers"`
}

// Traffic is a rate of messages or datagrams.
type Traffic struct {
	Count float64 `json:"count"`
	Bytes float64 `json:"bytes"`
}

// Leg has figures of all connections to clients, or of all to servers.
type Leg struct {
	RTT    float64 `json:"rtt_ms"` // mean; 0: unknown
	Resent float64 `json:"resent"`
	Lost   float64 `json:"lost"`
	Queued float64 `json:"queued_bytes"`
}

// Drop is the drops for one reason.
type Drop struct {
	Reason string  `json:"reason"`
	Rate   float64 `json:"rate"`
	Total  float64 `json:"total"`
}

// Server is a game server of an upstream.
type Server struct {
	Upstream string `json:"upstream"`
	admin.GameServer
}
