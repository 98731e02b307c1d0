package nethernet

import (
	"errors"
	"fmt"

	"tidegate/codec"
)

// Sizes of fragments in bytes, with the byte that counts.
const (
	// UsualFragment is good for all known peers: some refuse larger messages of SCTP.
	UsualFragment = 10_000
	// MaxFragment is the largest one that a peer may send.
	MaxFragment = 262_144
	// MaxFragments is the largest number of fragments of one message that a Bedrock server takes.
	MaxFragments = 255
)

// Errors of Assembler.Add and Split.
var (
	ErrCountdown = errors.New("a fragment does not continue its message")
	ErrAssembly  = fmt.Errorf("%w: message too large to be put together", codec.ErrLimit)
)

// Splitter cuts a message into fragments. Before each stands a byte with the number of fragments that follow.
type Splitter struct {
	rest []byte
	size int
	left int // fragments
}

// Split begins to cut a message. It keeps the message, not a copy. Fragments have at most size bytes. A message on the
// unreliable channel must fit into one. The error wraps codec.ErrTooLarge: there would be more than MaxFragments.
func Split(message []byte, size int) (Splitter, error) {
	size = min(max(size, 2), MaxFragment) - 1
	count := max(1, (len(message)+size-1)/size)
	if count > MaxFragments {
		return Splitter{}, fmt.Errorf("%w: %d fragments", codec.ErrTooLarge, count)
	}
	return Splitter{rest: message, size: size, left: count}, nil
}

// Append appends the next fragment, or reports false if there is none.
func (s *Splitter) Append(b []byte) ([]byte, bool) {
	if s.left == 0 {
		return b, false
	}
	s.left--
	n := min(s.size, len(s.rest))
	b = append(append(b, byte(s.left)), s.rest[:n]...)
	s.rest = s.rest[n:]
	return b, true
}

// Assembler puts the fragments of one reliable channel together. The zero value takes no message of several fragments.
type Assembler struct {
	// Limit bounds a message of several fragments, in bytes. The memory of a message grows with what has arrived.
	Limit int

	message []byte
	left    int // fragments of the message that are missing; 0: it has not begun
}

// Add takes one message of the channel. When it completes a message of the game, it returns that message, which is
// valid until the next Add. Nothing otherwise: a message has at least a byte. After an error the message is lost, and
// with it the connection: SCTP lost nothing, so the peer is broken.
func (a *Assembler) Add(fragment []byte) ([]byte, error) {
	if len(fragment) == 0 { // Bedrock servers ignore it
		return nil, nil
	}
	left, data := int(fragment[0]), fragment[1:]
	switch {
	case a.left == 0 && left == 0:
		return data, nil
	case a.left == 0:
		a.message = a.message[:0]
	case left != a.left-1:
		a.Forget()
		return nil, ErrCountdown
	}
	if len(data) > a.Limit-len(a.message) {
		a.Forget()
		return nil, ErrAssembly
	}
	a.message, a.left = append(a.message, data...), left
	if left > 0 {
		return nil, nil
	}
	return a.message, nil
}

// Forget gives up the message that is not complete, and frees its memory.
func (a *Assembler) Forget() { a.message, a.left = nil, 0 }

// Held returns the size of the memory that the Assembler holds, in bytes.
func (a *Assembler) Held() int { return cap(a.message) }
