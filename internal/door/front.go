package door

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"tidegate/internal/pause"
)

// frontBuffer is the memory of each direction of a connection, in bytes.
const frontBuffer = 8 << 10

// Front passes the connections of a Listener on to a server that has no bound of its own. The server closes those of
// strangers. A connection that is older than proof is no stranger's, and is kept.
type Front struct {
	Dial  func(context.Context) (net.Conn, error) // connects to the server
	Proof time.Duration
}

// Serve passes connections on until ctx is done, and returns when all have ended. It closes the listener.
func (f Front) Serve(ctx context.Context, l *Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Without room for a descriptor, Accept may have returned before the function runs that ends it.
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return
		}
		if err != nil { // no descriptors are left
			pause.For(ctx, acceptPause)
			continue
		}
		all.Go(func() { f.pass(ctx, c.(*Conn)) })
	}
}

const acceptPause = 100 * time.Millisecond

// pass passes the bytes of both directions on, until one side ends.
func (f Front) pass(ctx context.Context, c *Conn) {
	defer func() { _ = c.Close() }()
	server, err := f.Dial(ctx)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	keep := time.AfterFunc(f.Proof, c.Keep)
	defer keep.Stop()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, server}, {server, c}} {
		go func() {
			// Without ReaderFrom, whose splice takes two more descriptors for each direction.
			_, _ = io.CopyBuffer(struct{ io.Writer }{way[1]}, struct{ io.Reader }{way[0]}, make([]byte, frontBuffer))
			ended <- struct{}{}
		}()
	}
	select {
	case <-ctx.Done():
	case <-ended:
	}
	_, _ = c.Close(), server.Close()
}
