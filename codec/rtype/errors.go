package rtype

import (
	"fmt"

	"tidegate/codec"
)

// What Receive and Send report beyond the contract's own errors. They are made once: hostile input costs no memory.
var (
	errOpcode    = fmt.Errorf("%w: no such instruction", codec.ErrMalformed)
	errTorn      = fmt.Errorf("%w: instruction of a wrong length", codec.ErrMalformed)
	errComponent = fmt.Errorf("%w: component that was not announced", codec.ErrMalformed)
	errNames     = fmt.Errorf("%w: not a list of component names", codec.ErrMalformed)
	errEntity    = fmt.Errorf("%w: entity that the client was not told of", codec.ErrMalformed)
	errWidth     = fmt.Errorf("%w: width of entities not known yet", codec.ErrUnexpected)
	errRate      = fmt.Errorf("%w: too many messages a second", codec.ErrLimit)
	errNoForm    = fmt.Errorf("%w: no such message in this dialect and direction", codec.ErrMode)
)
