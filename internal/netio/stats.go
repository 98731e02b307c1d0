package netio

// Stats are totals of a Poller. They only grow.
type Stats struct {
	In, Out   Traffic
	Truncated uint64 // received longer than MaxDatagram, dropped
	// Dropped by the kernel; always 0 in Portable. It does not tell for want of room from by a filter.
	KernelDrops uint64 // at listening sockets without a filter, or with one that counts its drops itself
	FilterDrops uint64 // at listening sockets with a filter that does not: by it, or for want of room
	DialedDrops uint64 // at dialed sockets, for want of room
	WouldBlock  uint64 // to be sent while the kernel's buffer was full, dropped
	TooLarge    uint64 // to be sent, longer than MaxDatagram or than the path allows, dropped
	Strangers   uint64 // received by a descriptor of dialed sockets from nobody's peer, dropped
	Refused     uint64 // reports that nobody listens at a dialed peer
	Errors      uint64 // other errors of sending and receiving, each of at most one datagram
	Streams     StreamStats
}

// StreamStats are totals of a Poller's TCP connections. Their frames are in Stats.In and Out.
type StreamStats struct {
	Accepted  uint64
	Dialed    uint64
	Ended     uint64 // by the peer, in order or by a reset, or by the network
	BadFrames uint64 // closed for a frame length out of bounds
	Silent    uint64 // closed for want of a first frame
	Slow      uint64 // closed for what waited for the peer to read
	Refused   uint64 // closed as soon as accepted: StreamOptions.MaxConns
}

// countEnd counts the end of a stream for err.
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

// Traffic is what went one way.
type Traffic struct {
	Datagrams uint64
	Bytes     uint64 // of payload
	Calls     uint64 // that carried them: Datagrams / Calls is the batching reached
}

// add counts datagrams that one call carried.
func (t *Traffic) add(datagrams, bytes int) {
	t.Datagrams += uint64(datagrams)
	t.Bytes += uint64(bytes)
	t.Calls++
}

// countSend counts n datagrams that were not sent.
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

// countReceive counts an error in place of a received datagram.
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
