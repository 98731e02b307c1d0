package scarce

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Listeners calls serve for many listeners side by side, whose Accept fails at once, since the process has no more
// descriptors. It then ends their context. Each serve must return nil, and close its listener before.
func Listeners(t *testing.T, serve func(context.Context, net.Listener) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all, begun sync.WaitGroup
	for range 2000 { // the fault that this finds is a race of a few instructions
		l := &listener{begun: begun.Done}
		begun.Add(1)
		all.Go(func() {
			if err := serve(ctx, l); err != nil || !l.closed.Load() {
				t.Errorf("%v; the listener is closed: %v", err, l.closed.Load())
			}
		})
	}
	begun.Wait()
	cancel()
	all.Wait()
}

type listener struct {
	once   sync.Once
	begun  func()
	closed atomic.Bool
}

func (l *listener) Accept() (net.Conn, error) {
	l.once.Do(l.begun)
	return nil, syscall.EMFILE
}

func (l *listener) Close() error {
	l.closed.Store(true)
	return nil
}

func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
