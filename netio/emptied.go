package netio

// Emptied may be implemented by a Handler, to be told when there is nothing left to read: by its absence a flood is known.
// The portable backend does not tell.
type Emptied interface {
	// Emptied is called at the end of each Receive that has left nothing in the listening UDP sockets.
	Emptied()
}
