package codec

// Pinger is a Protocol whose servers say of themselves, to whoever asks without a connection, what server lists show.
type Pinger interface {
	Protocol
	// AppendPing appends a question to a server. Its answer has the same token.
	AppendPing(b []byte, token uint64) []byte
	// ParsePong reads an answer. The text aliases the datagram. Errors wrap ErrMalformed.
	ParsePong(datagram []byte) (token uint64, text []byte, err error)
	// JoinPongs appends to b one text that stands for the servers of all the given ones, at least one: the first, with
	// its figures summed and as the listing has it, as far as the protocol knows what its parts mean. b aliases none of
	// the texts.
	JoinPongs(b []byte, texts [][]byte, as Listing) []byte
}

// Listing is what a proxy changes of what its servers say of themselves.
type Listing struct {
	Name string // empty: the servers' own
	Port uint16 // at which players reach them
}
