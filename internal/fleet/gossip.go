package fleet

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tidegate/internal/fleet/view"
)

// Bounds of reports that are not read yet.
const (
	maxUnread  = 32 << 20 // bytes
	maxPending = 1024     // messages in the client library
)

// gossip exchanges reports with the other nodes by plain messages of NATS. They need no bucket, no majority and no
// disk.
type gossip struct {
	identity
	kind  string        // of the reports
	every time.Duration // at least, between two reports of this node

	// hear takes a report. The library calls it, for one report after the other.
	hear func(node string, report []byte)
	// read takes in all that hear has taken.
	read func() (rest time.Duration)
	// tell returns a report of this node; nil: there is none now.
	tell func(ctx context.Context, now time.Time) (report []byte, err error)

	wake chan struct{} // a report has arrived

	mu     sync.Mutex // never held across I/O
	status view.Exchange
}

// start exchanges reports until ctx is done. The function that it returns waits for the end.
func (g *gossip) start(ctx context.Context, connection *nats.Conn) (wait func()) {
	prefix := g.subject(g.kind) + "."
	hear := func(m *nats.Msg) {
		g.hear(strings.TrimPrefix(m.Subject, prefix), m.Data)
		signal(g.wake)
	}
	subscription, err := connection.Subscribe(prefix+">", hear) // the library repeats it after each reconnect
	if err != nil {
		g.log.Error().Err(err).Msg(g.kind + " not shared with the fleet until a restart")
		return func() {}
	}
	_ = subscription.SetPendingLimits(maxPending, maxUnread) // it fails only for a subscription that has ended
	return runs(func() {
		g.run(ctx, connection)
		_ = subscription.Unsubscribe() // the connection ends next
	})
}

func (g *gossip) run(ctx context.Context, connection *nats.Conn) {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for resting := true; ; {
		wake := g.wake
		if resting {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
			resting = false
		case <-wake:
			rest.Reset(g.read())
			resting = true
		case now := <-tick.C:
			if err := g.send(ctx, connection, now); err != nil {
				g.log.Debug().Err(err).Msg(g.kind + " not sent to the fleet")
			}
		}
	}
}

// send sends a report if there is something to tell.
func (g *gossip) send(ctx context.Context, connection *nats.Conn, now time.Time) error {
	report, err := g.tell(ctx, now)
	if err != nil || report == nil || !connection.IsConnected() {
		return err
	}
	if err = connection.Publish(g.subject(g.kind)+"."+g.node, report); err == nil {
		g.mu.Lock()
		g.status.Sent++
		g.mu.Unlock()
	}
	return err
}

// invalid counts a report that is not valid. The caller has the lock.
func (g *gossip) invalid(node string, err error) {
	g.status.Invalid++
	g.refuse("report of "+g.kind, node, g.status.Invalid, err)
}
