package proxy

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// wakeless is the poller of a loop that needs no waking.
type wakeless struct{ netio.Poller }

func (wakeless) Wake() {}

// TestLoopAnswersWithItsEnd asserts that a command that ends its loop reports success.
func TestLoopAnswersWithItsEnd(t *testing.T) {
	for range 1000 {
		l := newLoop(nil, wakeless{}, nil)
		go func() {
			f := <-l.mailbox
			f.do(nil, time.Time{})
			close(l.done)
		}()
		if !l.ask(stats.WorkList, func(*relay.Relay, time.Time) {}) {
			t.Fatal("the loop has not been asked")
		}
		if err := l.consult(t.Context(), stats.WorkList, func(*relay.Relay, time.Time) {}); !errors.Is(err, ErrStopped) {
			t.Fatalf("a loop that has ended says %v", err)
		}
	}
}
