package demo

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
