// Package explain has what the explanations of all protocols share. Explain of a codec's Protocol begins one.
package explain

import "errors"

// ErrUnusual reports a datagram that a codec takes, and that no honest peer of the protocol sends.
var ErrUnusual = errors.New("unusual")

// Conversation explains a datagram of one conversation, for people: in one line, and each message in it. An error says
// that the datagram is not of the protocol, or only in part. Errors that wrap ErrUnusual come with a text.
type Conversation func(fromServer bool, datagram []byte) (text string, messages []string, err error)
