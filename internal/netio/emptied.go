package netio

// Emptied may be implemented by a Handler, to be told when there is nothing left to read: by its absence a flood is known.
// The portable backend does not tell.
type Emptied interface {
	// Emptied is called at the end of each Receive that has left nothing in the listening UDP sockets.
	Emptied()
}

// Refuser may be implemented by a Handler that turns datagrams away, to have a flood of them cost less.
type Refuser interface {
	// Refused is how many datagrams it has turned away in this Receive.
	Refused() int
}
