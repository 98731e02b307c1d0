package demo

import (
	"strings"

	"tidegate/internal/table"
)

// Promise is the delivery that a pair guarantees for its clients' strongest messages.
type Promise uint8

// Promises, the strongest first. No promise allows changed or invented messages.
const (
	ExactlyOnce Promise = iota // each message is answered exactly once
	AtLeastOnce                // each message reaches the server, perhaps several times; its answer may be lost
	Lossy                      // messages and answers may be lost; almost none are on a good link
)

var promiseNames = [...]string{"exactly once", "at least once", "lossy"}

// String returns the promise for the list of pairs.
func (p Promise) String() string { return promiseNames[p] }

// sentence returns the promise for the summary.
func (p Promise) sentence() string {
	return [...]string{
		"exactly once: each reliable message is answered, once and unchanged",
		"at least once: each reliable message reaches the server unchanged; its answer may be lost",
		"lossy: on a clean link nearly all messages are answered; none is changed or made up",
	}[p]
}

// Promise returns the promise of the pair.
func (p Pair) Promise() Promise {
	switch {
	case !isReliable(p.from):
		return Lossy
	case isReliable(p.to):
		return ExactlyOnce
	case reports(p.to):
		return AtLeastOnce
	}
	return Lossy
}

// List returns a table of all pairs.
func List() string {
	var b strings.Builder
	var rows [][]string
	for _, p := range Pairs() {
		rows = append(rows, []string{p.From(), p.To(), p.Promise().String(), p.serverOn(), p.reason()})
	}
	table.Print(&b, 0, []table.Column{{Name: "from"}, {Name: "to"}, {Name: "promise"}, {Name: "server"}, {Name: "why"}},
		rows)
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
