package demo

import (
	"strings"

	"tidegate/internal/table"
)

// List returns a table of all pairs.
func List() string {
	var b strings.Builder
	var rows [][]string
	for _, p := range Pairs() {
		rows = append(rows, []string{p.From(), p.To(), p.Promise().String(), p.serverOn(), p.reason()})
	}
	table.Print(&b, 0, []table.Column{{Name: "from"}, {Name: "to"}, {Name: "promise"}, {Name: "server"}, {Name: "why"}}, rows)
	return b.String()
}

// reason returns the reason for the pair's promise.
func (p Pair) reason() string {
	switch {
	case p.Promise() == ExactlyOnce:
		return "both protocols resend"
	case p.Promise() == AtLeastOnce:
		return p.To() + " reports losses, Tidegate resends"
	case !isReliable(p.from):
		return p.From() + " resends nothing"
	}
	return p.To() + " resends nothing"
}

// serverOn returns the implementation of the pair's game server.
func (p Pair) serverOn() string {
	if p.To() == goRakNet {
		return "go-raknet"
	}
	return "our own"
}
