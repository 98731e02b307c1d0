package netio

// failure is what an error of a socket means, whatever the platform calls it.
type failure uint8

const (
	otherFailure failure = iota
	wouldBlock           // the kernel's buffer is full, or empty
	tooLarge             // the datagram is longer than the path, or the buffer it was to be read into, allows
	refused              // the peer's host answered that nobody listens
	unreachable          // no way to the peer's host
)

// err is the error the Handler is told, or nil where it is none of its business.
func (f failure) err() error {
	switch f {
	case refused:
		return ErrRefused
	case unreachable:
		return ErrUnreachable
	}
	return nil
}

// failures is the news for Handler.Failed. It is told by Receive, never from within Send or Flush, so that a loop is
// not called back amid its own work. At most one entry a socket.
type failures []failed

// failed is one dialed socket that met an error, or a stream that is over.
type failed struct {
	socket   Socket
	endpoint *endpoint
	err      error
	over     bool // the socket is to be closed
}

// add queues the news that s failed, if s is dialed and the news is not in the queue already.
func (q *failures) add(s Socket, e *endpoint, f failure) {
	if !e.dialed() || e.failed || f.err() == nil {
		return
	}
	e.failed = true
	*q = append(*q, failed{s, e, f.err(), false})
}

// end queues the news that the stream s is over, once, and counts why.
func (q *failures) end(s Socket, e *endpoint, stats *StreamStats, err error) {
	if e.closed || e.ending {
		return
	}
	e.ending = true
	if told := classify(err).err(); told != nil {
		err = told
	}
	stats.countEnd(err)
	*q = append(*q, failed{s, e, err, true})
}

// tell empties the queue into h, with what h adds meanwhile.
func (q *failures) tell(h Handler) {
	for i := 0; i < len(*q); i++ {
		f := (*q)[i]
		f.endpoint.failed = false
		if f.endpoint.closed {
			continue
		}
		h.Failed(f.socket, f.err)
		if f.over {
			f.socket.Close()
		}
	}
	clear(*q)
	*q = (*q)[:0]
}
