package demo

import (
	"fmt"
	"strings"
)

// List is a table of all pairs.
func List() string {
	var b strings.Builder
	const columns = "%-15s  %-15s  %-13s  %-9s  %s\n"
	fmt.Fprintf(&b, columns, "from", "to", "promise", "server", "why")
	for _, p := range Pairs() {
		fmt.Fprintf(&b, columns, p.From(), p.To(), p.Promise(), p.serverOn(), p.reason())
	}
	return b.String()
}

// reason says why the pair promises no more.
func (p Pair) reason() string {
	switch {
	case p.Promise() == ExactlyOnce:
		return "both wires resend"
	case p.Promise() == AtLeastOnce:
		return p.To() + " reports losses, Tidegate resends"
	case !isReliable(p.from):
		return p.From() + " resends nothing"
	}
	return p.To() + " resends nothing"
}

// serverOn is what the game server of the pair is written on.
func (p Pair) serverOn() string {
	if p.To() == goRakNet {
		return "go-raknet"
	}
	return "our own"
}
