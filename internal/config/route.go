package config

import "slices"

// Route connects listeners to an upstream and configures the bridge between their protocols.
type Route struct {
	Name       string   `toml:"name"`
	Upstream   string   `toml:"upstream"` // name of an Upstream
	Mode       Mode     `toml:"mode"`
	Admit      Admit    `toml:"admit"`
	Ordered    Ordered  `toml:"ordered"`  // empty: not stated
	Reliable   Reliable `toml:"reliable"` // empty: not stated
	AllowLossy bool     `toml:"allow_lossy"`
	Envelope   Envelope `toml:"envelope"`
	// first byte of a RakNet message from another protocol: RakNet uses bytes below 0x1b itself, and rewrites the time
	// behind 0x1b; the next byte marks messages without an ID
	PacketID uint8 `toml:"packet_id" min:"28" max:"254"`
	// message ID given to messages of a raw envelope
	RawMessageID uint16     `toml:"raw_message_id"`
	Queue        Size       `toml:"queue" min:"16KiB" max:"1GiB"` // bytes queued for one peer
	Undeclared   Undeclared `toml:"undeclared"`                   // for messages without an entry in Messages
	Failover     Failover   `toml:"failover"`                     // for players whose server is lost
	HoldTime     Duration   `toml:"hold_time" min:"1s" max:"10m"` // how long failover holds them
	HoldGoodbyes bool       `toml:"hold_goodbyes"`                // also after a goodbye without a reason
	HoldNewIDs   bool       `toml:"hold_new_ids"`                 // also if the Riptide client ID changes
	Pong         PongSource `toml:"pong"`                         // source of the server list text
	// replaces the servers' name in the text; empty: theirs
	PongName    string    `toml:"pong_name"`
	PongRefresh Duration  `toml:"pong_refresh" min:"100ms" max:"1m"` // interval of questions to the servers
	PongKeep    Duration  `toml:"pong_keep" min:"1s" max:"24h"`      // how long the text of a silent server is shown
	Messages    []Message `toml:"message"`
}

func (r *Route) setDefaults() {
	*r = Route{
		Mode: Terminate, Admit: AdmitAuto, Envelope: EnvelopeID, PacketID: 0x86, Queue: 4 * MiB,
		Undeclared: UndeclaredPass, Failover: FailoverDisconnect, HoldTime: seconds(15),
		Pong: PongAuto, PongRefresh: seconds(2), PongKeep: seconds(60),
	}
}

// Admit is the moment at which a joining client is admitted.
type Admit string

// Moments of admission.
const (
	UpstreamFirst Admit = "upstream_first" // after the upstream server has accepted it
	ProofFirst    Admit = "proof_first"    // after it has proved its address
	AdmitAuto     Admit = "auto"           // ProofFirst if the handshake proves the address, else UpstreamFirst
)

// Choices lists the words of the configuration.
func (Admit) Choices() []string { return choices(UpstreamFirst, ProofFirst, AdmitAuto) }

// Ordered is the handling of ordered messages on a protocol without order.
type Ordered string

// Ways to send ordered messages.
const (
	Strict Ordered = "strict" // one message per round trip and channel: keeps the order, not the rate
	Fast   Ordered = "fast"   // at once: keeps the rate, but the order only if the network does
)

// Choices lists the words of the configuration.
func (Ordered) Choices() []string { return choices(Strict, Fast) }

// Reliable is the handling of reliable messages on a protocol that reports losses but does not resend.
type Reliable string

// Ways to send reliable messages.
const (
	Resend Reliable = "resend" // repeat until acknowledged: at least once
	Report Reliable = "report" // send once and count losses
)

// Choices lists the words of the configuration.
func (Reliable) Choices() []string { return choices(Resend, Report) }

// Envelope is the place of a message's ID in a protocol without message IDs.
type Envelope string

// Envelopes.
const (
	EnvelopeID     Envelope = "id"     // the ID in 2 bytes before the payload
	EnvelopeRaw    Envelope = "raw"    // the payload alone
	EnvelopeFramed Envelope = "framed" // as id, after a 2-byte length
	// EnvelopeAggregate is framed, with several messages in one RakNet message.
	EnvelopeAggregate Envelope = "aggregate"
)

// Choices lists the words of the configuration.
func (Envelope) Choices() []string {
	return choices(EnvelopeID, EnvelopeRaw, EnvelopeFramed, EnvelopeAggregate)
}

// Failover is the treatment of players whose server is lost.
type Failover string

// Treatments.
const (
	FailoverDisconnect Failover = "disconnect" // disconnected; they may join again
	FailoverHold       Failover = "hold"       // held while Tidegate looks for a server
)

// Choices lists the words of the configuration.
func (Failover) Choices() []string { return choices(FailoverDisconnect, FailoverHold) }

// failover checks a route's treatment of players whose server is lost.
func (v *validator) failover(path string, r Route) {
	if r.Mode == Relay && r.Failover == FailoverHold {
		v.fault(child(path, "failover"), r.Failover, `"disconnect": a route in mode "relay" does not understand the `+
			`players' protocol`)
	}
	if r.Failover == FailoverHold {
		return
	}
	for key, set := range map[string]bool{
		"hold_time": r.HoldTime != seconds(15), "hold_goodbyes": r.HoldGoodbyes, "hold_new_ids": r.HoldNewIDs,
	} {
		if set {
			v.warn(child(path, key), r.Failover, `failover = "hold": without it this key has no effect`)
		}
	}
}

// holdsBedrock warns of a hold that Minecraft's sessions cannot use.
func (v *validator) holdsBedrock(path string, r Route) {
	i := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
	if r.Failover == FailoverHold && i >= 0 && v.Upstreams[i].Protocol == "bedrock" {
		v.warn(child(path, "failover"), r.Failover, `"disconnect" for Minecraft: its session cannot go on at another `+
			`server, also not by a transfer; other games on RakNet can`)
	}
}

// routes checks each route by itself. bridges checks its two protocols together.
func (v *validator) routes() {
	for i, r := range v.Routes {
		path := item("route", i)
		v.reference(child(path, "upstream"), r.Upstream, "upstream", namesOf(v.Upstreams, upstreamName))
		v.pong(path, r)
		v.failover(path, r)
		v.holdsBedrock(path, r)
	}
}
