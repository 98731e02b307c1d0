// Package explain has what the explanations of all protocols share. Explain of a codec's Protocol begins one.
package explain

import "errors"

// ErrUnusual reports a datagram that a codec takes, and that no honest peer of the protocol sends.
var ErrUnusual = errors.New("unusual")

// Conversation explains a datagram of one conversation, for people: in one line, and each message in it. An error says
// that the datagram is not of the protocol, or only in part. Errors that wrap ErrUnusual come with a text.
type Conversation func(fromServer bool, datagram []byte) (text string, messages []string, err error)

// Memory bounds what the explanations of a whole capture keep, in bytes: what each conversation may keep, times
// thousands of them, would be too much. A nil Memory has no bound. It is not safe for concurrent use.
type Memory struct {
	left *int
	held int
}

// NewMemory returns a Memory of this number of bytes.
func NewMemory(most int) *Memory { return &Memory{left: &most} }

// Part returns a Memory that shares the bound.
func (m *Memory) Part() *Memory {
	if m == nil {
		return nil
	}
	return &Memory{left: m.left}
}

// Hold says how many bytes the owner keeps now. It returns false if there is no room: the owner must drop them.
func (m *Memory) Hold(bytes int) bool {
	if m == nil || bytes == m.held {
		return true
	}
	if bytes-m.held > *m.left {
		*m.left, m.held = *m.left+m.held, 0
		return false
	}
	*m.left, m.held = *m.left+m.held-bytes, bytes
	return true
}
