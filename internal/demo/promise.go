package demo

import (
	"fmt"
	"strings"
)

// Promise is the delivery that a pair guarantees for its clients' strongest messages.
type Promise uint8

// Promises, the strongest first. No promise allows changed or invented messages.
const (
	ExactlyOnce Promise = iota // each message is answered exactly once
	AtLeastOnce                // each message reaches the server, perhaps several times; its answer may be lost
	Lossy                      // messages and answers may be lost; almost none are on a good link
)

// String returns the promise for programs.
func (p Promise) String() string { return [...]string{"exactly once", "at least once", "lossy"}[p] }

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

// signs are the promises in the list of pairs.
var signs = [...]string{ExactlyOnce: "E", AtLeastOnce: "A", Lossy: "L"}

// List returns all pairs as a matrix, at most 60 characters wide. The columns have the numbers of the rows.
func List() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Rows: the clients' protocol. Columns: the server's.\n")
	head := fmt.Sprintf("%18s", "")
	for i := range available {
		head += fmt.Sprintf("%3d", i+1)
	}
	line("%s", head)
	for i, from := range available {
		row := fmt.Sprintf("%2d %-15s", i+1, from.Spec().Name)
		for _, to := range available {
			sign := "-"
			if p, err := NewPair(from.Spec().Name, to.Spec().Name); err == nil {
				sign = signs[p.Promise()]
			}
			row += fmt.Sprintf("%3s", sign)
		}
		line("%s", row)
	}
	line("\n%s", `E  exactly once: both protocols resend
A  at least once: the server's protocol reports losses,
   and Tidegate resends
L  lossy: one of the protocols resends nothing
-  not possible: the two games have no input in common`)
	line("\nThe game server of %s is go-raknet; others are our own.", goRakNet)
	line("Play one: tidegate demo --from rudp --to raknet")
	return b.String()
}

// serverOn returns the implementation of the pair's game server.
func (p Pair) serverOn() string {
	if p.To() == goRakNet {
		return "go-raknet"
	}
	return "our own"
}
