package netio

// Emptied may be implemented by a Handler, to be told when there is nothing left to read: by its absence a flood is known.
// The portable backend does not tell.
type Emptied interface {
	// Emptied is called at the end of each Receive that has left nothing in the listening UDP sockets.
	Emptied()
}

// Looker may be implemented by a Handler that keeps a clock.
type Looker interface {
	// Look is called after reads, before their datagrams are handed over: they may have come after a pause of the
	// process. It is called for each read of a listening socket and of a stream, and for some reads of dialed sockets.
	Look()
}

// blind is the Looker of a Handler without a clock.
type blind struct{}

func (blind) Look() {}

// lookerOf is the Looker that a Handler is.
func lookerOf(h Handler) Looker {
	if l, ok := h.(Looker); ok {
		return l
	}
	return blind{}
}

// Refuser may be implemented by a Handler that turns datagrams away, to have a flood of them cost less.
type Refuser interface {
	// Refused is how many datagrams it has turned away in this Receive.
	Refused() int
}
