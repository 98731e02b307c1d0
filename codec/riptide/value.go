package riptide

import (
	"errors"
	"fmt"

	"tidegate/codec"
)

// A game's messages are values one after the other, without names or types: only the game knows what they are. Reader
// and Writer are the library's Get and Add methods for both dialects, see docs/protocols/riptide.md#values.

// Errors of Reader, Writer and Transcode.
var (
	ErrShort    = fmt.Errorf("%w: message ends before its values", codec.ErrMalformed)
	ErrTrailing = fmt.Errorf("%w: message goes on after its values", codec.ErrMalformed)
	ErrVarint   = fmt.Errorf("%w: number of more than 64 bits", codec.ErrMalformed)
	ErrLength   = errors.New("string or array too long for Riptide 2.0")
	ErrDialect  = errors.New("value that Riptide 2.0 does not have")
)

// Vector2 is Unity's type of that name.
type Vector2 struct{ X, Y float32 }

// Vector3 is Unity's type of that name.
type Vector3 struct{ X, Y, Z float32 }

// Quaternion is Unity's type of that name.
type Quaternion struct{ X, Y, Z, W float32 }

// The length of a string or array in Riptide 2.0 is a byte up to shortLength. Above that it is two, big-endian, with
// the highest bit set.
const (
	shortLength = 1<<7 - 1
	maxLength   = 1<<15 - 1
	longLength  = 0x80
)
