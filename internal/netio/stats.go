package netio

// Stats are the totals of a Poller. They never decrease.
type Stats struct {
	In, Out   Traffic
	Truncated uint64 // received, but longer than MaxDatagram; dropped
	// Datagrams dropped by the kernel, which does not tell a full buffer from a filter. Always 0 in Portable.
	KernelDrops uint64 // at listening sockets without a filter, or with one that counts its own drops
	FilterDrops uint64 // at listening sockets with a filter that does not count, by it or because the buffer was full
	DialedDrops uint64 // at dialed sockets, because the buffer was full
	WouldBlock  uint64 // to be sent while the kernel's buffer was full; dropped
	TooLarge    uint64 // to be sent, but longer than MaxDatagram or the path allows; dropped
	Strangers   uint64 // received by a shared descriptor from an unknown peer; dropped
	Refused     uint64 // reports of closed ports at dialed peers
	Errors      uint64 // other errors of sending and receiving, at most one for each datagram
	Delays      uint64 // turns that waited for more datagrams
	Streams     StreamStats
}

// StreamStats are the totals of a Poller's TCP connections. Stats.In and Out count their frames.
type StreamStats struct {
	Accepted  uint64
	Dialed    uint64
	Ended     uint64 // by the peer, properly or by a reset, or by the network
	BadFrames uint64 // closed because a frame length was out of bounds
	Silent    uint64 // closed without a first frame in time
	Slow      uint64 // closed because too much data waited for the peer
	Refused   uint64 // closed at once because of StreamOptions.MaxConns or Hellos, or for lack of descriptors
}

// countEnd counts the end of a stream because of err.
func (s *StreamStats) countEnd(err error) {
	switch err {
	case ErrFrame:
		s.BadFrames++
	case ErrSilent:
		s.Silent++
	case ErrSlow:
		s.Slow++
	default:
		s.Ended++
	}
}

// Traffic counts one direction.
type Traffic struct {
	Datagrams uint64
	Bytes     uint64 // of payload
	Calls     uint64 // system calls: Datagrams / Calls is the average batch
}

// add counts the datagrams of one system call.
func (t *Traffic) add(datagrams, bytes int) {
	t.Datagrams += uint64(datagrams)
	t.Bytes += uint64(bytes)
	t.Calls++
}

// countSend counts n unsent datagrams.
func (s *Stats) countSend(f failure, n int) {
	switch f {
	case wouldBlock:
		s.WouldBlock += uint64(n)
	case tooLarge:
		s.TooLarge += uint64(n)
	case refused:
		s.Refused += uint64(n)
	default:
		s.Errors += uint64(n)
	}
}

// countReceive counts an error that came instead of a datagram.
func (s *Stats) countReceive(f failure) {
	switch f {
	case tooLarge:
		s.Truncated++
	case refused:
		s.Refused++
	default:
		s.Errors++
	}
}
