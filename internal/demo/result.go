package demo

import (
	"fmt"
	"strings"
	"time"

	"tidegate/codec"
	"tidegate/internal/lossylink"
	"tidegate/internal/words"
)

// Result is the result of a demo, as its clients saw it.
type Result struct {
	Pair Pair
	Players
	LostBy codec.Reason // reason of one lost connection

	Reliable   Delivery
	Unreliable Exchange
	Changed    uint64 // echoes of both kinds without a message that their client sent

	RTT50, RTT99 time.Duration // from sending to the echo: median and 99th percentile
	Resent       Resent
	Link         lossylink.Stats // zero without a link
	ProxyError   error           // error at the proxy's end
}

// Players counts clients.
type Players struct {
	Clients   int `json:"wanted"`         // requested number
	Connected int `json:"connected"`      // connected to the server
	Lost      int `json:"lost"`           // lost their connection before the end
	Goodbyes  int `json:"goodbyes"`       // left by their own goodbye while connected
	Heard     int `json:"goodbyes_heard"` // sessions that ended at the proxy before it stopped
}

// Resent counts repeated transmissions of messages, by sender and direction.
type Resent struct {
	ByClients uint64
	ToClients uint64 // by the proxy
	ToServer  uint64 // by the proxy
}

// add adds the counts of a client.
func (r *Result) add(c *client) {
	if c.connected {
		r.Connected++
	}
	switch {
	case c.left:
		r.Goodbyes++
	case c.connected:
		r.Lost, r.LostBy = r.Lost+1, c.reason
	}
	r.Reliable.add(c.reliable.delivery())
	r.Unreliable.Sent += c.unreliable.Sent
	r.Unreliable.Returned += c.unreliable.Returned
	r.Changed += c.changed
	r.Resent.ByClients += c.conn.Stats().Resent
}

// nearlyAll is the share of messages that must come back over a clean link without a promise.
const nearlyAll = 0.95

// OK reports whether all clients connected, the pair's promise was kept, all clients left by a goodbye, and the proxy
// ended cleanly.
func (r *Result) OK() bool { return len(r.faults()) == 0 }

// faults returns the failed conditions.
func (r *Result) faults() []string {
	var faults []string
	check := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	check(r.Connected < r.Clients, "%d of %s did not connect", r.Clients-r.Connected, words.Count(r.Clients, "client"))
	check(r.Lost > 0, "%s lost the connection (%s)", words.Count(r.Lost, "client"), r.LostBy)
	promise := r.Pair.Promise()
	check(r.Reliable.Sent+r.Unreliable.Sent == 0 || promise != Lossy && r.Reliable.Sent == 0, "nothing was sent")
	check(r.Reliable.Missing > 0, "%s missing", words.Count(r.Reliable.Missing, "reliable message"))
	check(promise == ExactlyOnce && r.Reliable.Duplicated > 0,
		"%s came back twice", words.Count(r.Reliable.Duplicated, "reliable message"))
	if promise != ExactlyOnce {
		answers := r.answers()
		due := uint64(nearlyAll * float64(answers.Sent))
		if r.Link.Lost > 0 {
			due = 1 // a lossy link may lose any message, but hardly all
		}
		check(answers.Returned < due,
			"only %d of %s came back", answers.Returned, words.Count(answers.Sent, "message"))
		check(r.Link.Lost == 0 && answers.Returned > answers.Sent,
			"%d came back of %s", answers.Returned, words.Count(answers.Sent, "message"))
	}
	check(r.Changed > 0, "%s changed", words.Count(r.Changed, "message"))
	// A link may lose a goodbye, which most protocols say only once.
	check(r.Pair.saysGoodbye() && r.Link.Lost == 0 && r.Heard < r.Goodbyes,
		"%s not heard", words.Count(r.Goodbyes-r.Heard, "goodbye"))
	check(r.ProxyError != nil, "the proxy ended with an error: %v", r.ProxyError)
	return faults
}

// answers returns the counts of the messages that need no exact delivery.
func (r *Result) answers() Exchange {
	if r.Pair.Promise() == Lossy {
		return r.Unreliable
	}
	return Exchange{Sent: r.Reliable.Sent, Returned: r.Reliable.Returned}
}

// Summary returns the result as text for people. Its last line begins with "ok:" or "FAILED:".
func (r *Result) Summary() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("")
	line("%-12s %10s %10s %10s %10s", "messages", "sent", "returned", "missing", "duplicated")
	line("%-12s %10d %10d %10d %10d", "reliable",
		r.Reliable.Sent, r.Reliable.Returned, r.Reliable.Missing, r.Reliable.Duplicated)
	line("%-12s %10d %10d", "unreliable", r.Unreliable.Sent, r.Unreliable.Returned)
	if r.Unreliable.Returned < r.Unreliable.Sent {
		line("%-12s late or lost ones are dropped by their receiver; no protocol promises them", "")
	}
	line("%-12s %d of both kinds", "changed", r.Changed)
	line("%-12s %s: %s", "promise", r.Pair.Promise(), promises[r.Pair.Promise()].sentence)
	line("%-12s p50 %s, p99 %s, from client to server and back", "round trip", roundTrip(r.RTT50), roundTrip(r.RTT99))
	if r.Link.Carried > 0 {
		line("%-12s %d of %d datagrams lost", "link", r.Link.Lost, r.Link.Carried+r.Link.Lost)
	}
	line("%-12s %d by clients, %d to clients, %d to the server", "resent",
		r.Resent.ByClients, r.Resent.ToClients, r.Resent.ToServer)
	line("%-12s %d of %s, %d heard by the proxy", "goodbyes", r.Goodbyes, words.Count(r.Clients, "client"), r.Heard)
	if r.Heard < r.Goodbyes && r.Link.Lost > 0 {
		line("%-12s a client says goodbye once, and the link may lose it; then the session ends later", "")
	}
	line("")
	if faults := r.faults(); len(faults) > 0 {
		line("FAILED: %s", strings.Join(faults, "; "))
	} else {
		line("ok: %s", r.success())
	}
	return b.String()
}

// success describes the success.
func (r *Result) success() string {
	switch r.Pair.Promise() {
	case ExactlyOnce:
		return fmt.Sprintf("all %d reliable messages came back exactly once and unchanged", r.Reliable.Sent)
	case AtLeastOnce:
		return fmt.Sprintf("all %d reliable messages reached the server unchanged", r.Reliable.Sent)
	}
	return fmt.Sprintf("%d of %d messages came back, none changed", r.Unreliable.Returned, r.Unreliable.Sent)
}

// roundTrip formats a round trip for people; "-" if it is unknown.
func roundTrip(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
}

// Report is a Result as JSON, for programs.
type Report struct {
	OK         bool            `json:"ok"`
	Faults     []string        `json:"faults"` // why not OK
	From       string          `json:"from"`
	To         string          `json:"to"`
	Promise    string          `json:"promise"`
	Clients    Players         `json:"clients"`
	Reliable   Delivery        `json:"reliable"`
	Unreliable Exchange        `json:"unreliable"`
	Changed    uint64          `json:"changed"`
	RTT50      float64         `json:"rtt_p50_ms"`
	RTT99      float64         `json:"rtt_p99_ms"`
	Resent     uint64          `json:"resent"`
	Datagrams  lossylink.Stats `json:"link"`
}

// Report returns the result for programs.
func (r *Result) Report() Report {
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }
	return Report{
		OK: r.OK(), Faults: append([]string{}, r.faults()...), From: r.Pair.From(), To: r.Pair.To(),
		Promise: r.Pair.Promise().String(), Clients: r.Players, Reliable: r.Reliable, Unreliable: r.Unreliable,
		Changed: r.Changed, RTT50: ms(r.RTT50), RTT99: ms(r.RTT99),
		Resent: r.Resent.ByClients + r.Resent.ToClients + r.Resent.ToServer, Datagrams: r.Link,
	}
}

// Counts is a short summary without a verdict: an operator may have ended sessions and stopped servers.
func (r *Result) Counts() string {
	line := func(of string, e Exchange) string { return fmt.Sprintf("%-12s %10d %10d\n", of, e.Sent, e.Returned) }
	return fmt.Sprintf("%-12s %10s %10s\n", "messages", "sent", "returned") +
		line("reliable", Exchange{r.Reliable.Sent, r.Reliable.Returned}) + line("unreliable", r.Unreliable) +
		fmt.Sprintf("%-12s %d, after which the client joined again\n", "lost", r.Lost)
}
