package netio

// DrainNotifier may be implemented by a Handler, to be told when there is nothing left to read: by its absence a flood is known.
// The portable backend does not tell.
type DrainNotifier interface {
	// InputDrained is called at the end of each Receive that has left nothing in the listening UDP sockets.
	InputDrained()
}

// ReadNotifier may be implemented by a Handler that keeps a clock.
type ReadNotifier interface {
	// AfterRead is called after reads, before their datagrams are handed over: they may have come after a pause of the
	// process. It is called for each read of a listening socket and of a stream, and for some reads of dialed sockets.
	AfterRead()
}

// blind is the ReadNotifier of a Handler without a clock.
type blind struct{}

func (blind) AfterRead() {}

// readNotifierOf is the ReadNotifier that a Handler is.
func readNotifierOf(h Handler) ReadNotifier {
	if l, ok := h.(ReadNotifier); ok {
		return l
	}
	return blind{}
}

// DropReporter may be implemented by a Handler that turns datagrams away, to have a flood of them cost less.
type DropReporter interface {
	// Refused is how many datagrams it has turned away in this Receive.
	Refused() int
}
