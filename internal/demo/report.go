package demo

import "time"

// Report is a Result as JSON, for programs.
type Report struct {
	OK      bool     `json:"ok"`
	Faults  []string `json:"faults"` // why not OK
	From    string   `json:"from"`
	To      string   `json:"to"`
	Promise string   `json:"promise"`
	Clients struct {
		Wanted    int `json:"wanted"`
		Connected int `json:"connected"`
		Lost      int `json:"lost"`
		Goodbyes  int `json:"goodbyes"`
		Heard     int `json:"goodbyes_heard"`
	} `json:"clients"`
	Reliable struct {
		Sent       uint64 `json:"sent"`
		Returned   uint64 `json:"returned"`
		Missing    uint64 `json:"missing"`
		Duplicated uint64 `json:"duplicated"`
	} `json:"reliable"`
	Unreliable struct {
		Sent     uint64 `json:"sent"`
		Returned uint64 `json:"returned"`
	} `json:"unreliable"`
	Changed   uint64  `json:"changed"`
	RTT50     float64 `json:"rtt_p50_ms"`
	RTT99     float64 `json:"rtt_p99_ms"`
	Resent    uint64  `json:"resent"`
	Datagrams struct {
		Carried uint64 `json:"carried"`
		Lost    uint64 `json:"lost"`
	} `json:"link"`
}

// Report returns the result for programs.
func (r *Result) Report() Report {
	p := Report{
		Faults: append([]string{}, r.faults()...), From: r.Pair.From(), To: r.Pair.To(),
		Promise: r.Pair.Promise().String(), Changed: r.Changed,
		RTT50: float64(r.RTT50.Round(time.Microsecond)) / 1e6, RTT99: float64(r.RTT99.Round(time.Microsecond)) / 1e6,
		Resent: r.Resent.ByClients + r.Resent.ToClients + r.Resent.ToServer,
	}
	p.OK = len(p.Faults) == 0
	c := &p.Clients
	c.Wanted, c.Connected, c.Lost, c.Goodbyes, c.Heard = r.Clients, r.Connected, r.Lost, r.Goodbyes, r.Heard
	p.Reliable.Sent, p.Reliable.Returned = r.Reliable.Sent, r.Reliable.Returned
	p.Reliable.Missing, p.Reliable.Duplicated = r.Reliable.Missing, r.Reliable.Duplicated
	p.Unreliable.Sent, p.Unreliable.Returned = r.Unreliable.Sent, r.Unreliable.Returned
	p.Datagrams.Carried, p.Datagrams.Lost = r.Link.Carried, r.Link.Lost
	return p
}
