package proxy

import "tidegate/internal/record"

// readSession is the record of a session in a batch.
type readSession struct {
	sockets []byte // their names
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
			one := &some[len(some)-1]
			one.err = record.Read(session, &one.savedSession)
		}
	}
	ahead <- some
	return nil
}
