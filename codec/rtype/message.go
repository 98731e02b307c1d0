package rtype

import (
	"bytes"
	"fmt"

	"tidegate/codec"
)

// Messages cross the codec's contract in one canonical form, so that every dialect bridges to every other.
// Instructions are those of the game with entities of 4 bytes, big-endian. Other messages have a first byte that no
// instruction has. docs/protocols/rtype/messages.md
const announced = 0xf0 // then the era, the width of entities, and the initialisation in the document's layout

const (
	maxKey      = 0x0b
	announceLen = 3 // bytes before the initialisation
)

// announcement is the canonical message that carries the initialisation, and the known facts of the format.
type announcement struct {
	format  format
	initial initialisation
}

func (a *announcement) parse(b []byte) error {
	if len(b) < announceLen || b[0] != announced || b[1] > byte(Final) || b[2] != 0 && b[2] != 2 && b[2] != 4 {
		return errNames
	}
	a.format = format{era: Era(b[1]), width: b[2]}
	rest, err := a.initial.parse(b[announceLen:])
	if err == nil && len(rest) > 0 {
		return errNames
	}
	return err
}

func (a *announcement) append(b []byte) []byte {
	b = append(b, announced, byte(a.format.era), a.format.width)
	return a.initial.append(b)
}

// hasKeys reports whether a client's lone bytes are keys. They may be keys while the era is unknown.
func (f *format) hasKeys() bool { return f.era == AnyEra || f.era == Early }

// Errors of Receive and Send, in addition to the contract's own. They are made once, so that hostile input costs no
// memory.
var (
	errOpcode    = fmt.Errorf("%w: unknown instruction", codec.ErrMalformed)
	errLength    = fmt.Errorf("%w: instruction of a wrong length", codec.ErrMalformed)
	errComponent = fmt.Errorf("%w: component not announced", codec.ErrMalformed)
	errNames     = fmt.Errorf("%w: not a list of component names", codec.ErrMalformed)
	errEntity    = fmt.Errorf("%w: entity not sent to the client", codec.ErrMalformed)
	errWidth     = fmt.Errorf("%w: width of entities still unknown", codec.ErrUnexpected)
	errRate      = fmt.Errorf("%w: too many messages a second", codec.ErrLimit)
	errNoForm    = fmt.Errorf("%w: message has no form in this dialect and direction", codec.ErrMode)
)

// Texts of the game. No instruction begins with their first bytes. docs/protocols/rtype.md#session
var (
	ping    = []byte("ping")
	pong    = []byte("pong")
	goodbye = []byte("You have been disconnected :(")
)

// isGoodbye reports whether d is the server's goodbye. Some versions also send its terminating zero byte.
func isGoodbye(d []byte) bool { return bytes.Equal(bytes.TrimSuffix(d, []byte{0}), goodbye) }
