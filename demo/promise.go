package demo

import (
	"fmt"
	"strings"

	"tidegate/codec"
)

// Promise is what a pair can keep of the strongest messages that its players send.
type Promise uint8

// Promises, strongest first. None of them lets a message be changed, or one be heard that nobody sent.
const (
	ExactlyOnce Promise = iota // each message is answered, once
	AtLeastOnce                // each message reaches the server, perhaps more than once; its answer may be lost
	Lossy                      // messages and answers may be lost; nearly none are on a good link
)

var promiseNames = [...]string{"exactly once", "at least once", "lossy"}

// String is the promise as in the list of pairs.
func (p Promise) String() string { return promiseNames[p] }

// sentence is the promise as in the summary.
func (p Promise) sentence() string {
	return [...]string{
		"exactly once: each reliable message is answered, once and unchanged",
		"at least once: each reliable message reaches the server unchanged; its answer may be lost",
		"lossy: on a clean link nearly all messages are answered; none is changed or made up",
	}[p]
}

// Promise is what the pair can keep.
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

// serverOn is what the game server of the pair is written on.
func (p Pair) serverOn() string {
	if p.To() == goRakNet {
		return "go-raknet"
	}
	return "our own"
}

// mode is the strongest mode of a protocol that asks for no more order than it must.
func mode(p codec.Protocol) codec.Mode {
	for _, m := range []codec.Mode{codec.Reliable, codec.ReliableOrdered, codec.UnreliableSequenced} {
		if p.Modes().Has(m) {
			return m
		}
	}
	return codec.Unreliable
}
