package proxy

import (
	"encoding/binary"

	"tidegate/internal/record"
)

// readSession is the record of a session in a batch.
type readSession struct {
	sockets []byte    // their names
	kept    SessionID // an unchanged session of a pre-copy; 0: the session has a record
	savedSession
	err error // of reading
}

// readAhead is the number of records that are read before the first of them is used.
const readAhead = 128

// readSessions calls use for all sessions of some batches, in their order. To read the records takes about as long as
// to use them. So another goroutine reads them.
func readSessions(batches [][]byte, use func(*readSession)) (err error) {
	ahead, done := make(chan []readSession, 1), make(chan []readSession, 2)
	done <- make([]readSession, 0, readAhead)
	done <- make([]readSession, 0, readAhead)
	go func() {
		defer close(ahead)
		err = readBatches(batches, ahead, done)
	}()
	for some := range ahead {
		for i := range some {
			use(&some[i])
		}
		done <- some[:0]
	}
	return err
}

// readBatches sends the records of some batches ahead. It uses the memory of records that are done.
func readBatches(batches [][]byte, ahead chan<- []readSession, done <-chan []readSession) error {
	some := <-done
	for _, b := range batches {
		for len(b) > 0 {
			names, rest, ok := cutPiece(b)
			if !ok {
				return errCut
			}
			session, rest, ok := cutPiece(rest)
			if !ok {
				return errCut
			}
			b = rest
			if len(some) == readAhead {
				ahead <- some
				some = <-done
			}
			some = append(some, readSession{sockets: names})
			some[len(some)-1].read(session)
		}
	}
	ahead <- some
	return nil
}

// read reads the record of a session. An empty one stands for a session of the pre-copy, whose ID is in place of the
// sockets' names.
func (s *readSession) read(b []byte) {
	if len(b) > 0 {
		s.err = record.Read(b, &s.savedSession)
		return
	}
	id, n := binary.Uvarint(s.sockets)
	if s.kept = SessionID(id); n <= 0 || id == 0 {
		s.err = errCut
	}
}
