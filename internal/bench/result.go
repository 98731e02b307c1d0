package bench

// Result is what a scenario found out.
type Result struct {
	Scenario string    `json:"scenario"`
	Of       string    `json:"of"` // what figures are told for each: "datagram", "message" or "session"
	Sessions int       `json:"sessions,omitempty"`
	Size     int       `json:"size,omitempty"`   // bytes of each datagram or message
	From     string    `json:"from,omitempty"`   // protocol of the clients; empty: datagrams pass as they are
	To       string    `json:"to,omitempty"`     // and of the server
	Rate     int       `json:"rate"`             // a second from clients; 0: as many as come back
	Flight   int       `json:"flight,omitempty"` // messages under way then; 0: 256
	Burst    int       `json:"burst,omitempty"`  // messages at a time
	Rounds   int       `json:"rounds"`
	Machine  string    `json:"machine"`
	Subjects []Figures `json:"subjects"`
	Ratios   []Ratios  `json:"ratios,omitempty"`
	Growth   []Growth  `json:"growth,omitempty"`
	Missing  []string  `json:"missing,omitempty"` // asked for and not measured, with the reason
}

// Figures are a subject's medians over all rounds. A datagram or message there and its echo back are two.
type Figures struct {
	Name          string  `json:"name"`
	Sessions      int     `json:"sessions,omitempty"`
	PerSecond     float64 `json:"per_second"`
	CPU           float64 `json:"cpu_ns"`            // of its process; 0: it has none
	CPUAll        float64 `json:"cpu_ns_added"`      // to direct's, over all processes; 0: unknown
	Allocs        float64 `json:"allocations"`       // of its process; negative: unknown
	Loss          float64 `json:"loss"`              // share of those sent
	P50           float64 `json:"rtt_p50_us"`        // of sessions: until the client is connected
	P99           float64 `json:"rtt_p99_us"`        //
	P999          float64 `json:"rtt_p999_us"`       //
	SessionMemory float64 `json:"bytes_per_session"` // resident, of its process
}
