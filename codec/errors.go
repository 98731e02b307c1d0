package codec

import "errors"

// Errors of the contract. Codecs wrap them, or return them as they are.
var (
	ErrMode       = errors.New("delivery mode not of this protocol")  // Send, Announce
	ErrTooLarge   = errors.New("message too large for this protocol") // Send
	ErrFull       = errors.New("send queue full")                     // Send: the bound of Options is reached
	ErrClosed     = errors.New("connection closed")                   // Send after Close or Disconnected
	ErrMalformed  = errors.New("malformed datagram")                  // Accept, Receive: not of the protocol's layout
	ErrRefused    = errors.New("connection attempt refused")          // Accept: answered with a stateless refusal, or not at all
	ErrUnexpected = errors.New("datagram not expected in this state") // Receive
	ErrDuplicate  = errors.New("duplicate or stale datagram")         // Receive
	ErrWindow     = errors.New("sequence number outside the window")  // Receive
	ErrLimit      = errors.New("bound on a peer's memory reached")    // Receive
)
