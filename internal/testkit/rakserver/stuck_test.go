package rakserver

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"
)

// deadlock is a recorded stack of a listener that stands still, and of one that goes on.
var deadlock = []string{
	`goroutine 8 [sync.RWMutex.Lock]:
sync.runtime_SemacquireRWMutex(0x3714ed3545a0?, 0x38?, 0x4a930d?)
	runtime/sema.go:105 +0x25
sync.(*RWMutex).Lock(0x48221f?)
	sync/rwmutex.go:155 +0x6b
github.com/sandertv/go-raknet/internal.(*ElasticChan[...]).growSend(0x599ce0, {0x3714ef8c8688, 0x4, 0x4})
	github.com/sandertv/go-raknet@v1.15.0/internal/chan.go:61 +0x4a`,
	`goroutine 9 [select]:
github.com/sandertv/go-raknet/internal.(*ElasticChan[...]).Recv(0x0, {0x84e770?, 0x1d66263ce050?})
	github.com/sandertv/go-raknet@v1.15.0/internal/chan.go:33 +0x130`,
}

// TestStuckNamesTheDeadlock finds a deadlock in its recorded stack.
func TestStuckNamesTheDeadlock(t *testing.T) {
	if got := stuckOf(deadlock); got != deadlock[0] {
		t.Errorf("stuck: %q", got)
	}
}

// TestStuck finds no deadlock in a server that answers, and its receiver.
func TestStuck(t *testing.T) {
	at := Start(t, Echo)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := raknet.PingContext(ctx, at.String()); err != nil {
		t.Fatal(err)
	}
	if stuck := Stuck(); stuck != "" {
		t.Errorf("a server that answers counts as stuck:\n%s", stuck)
	}
	if !strings.Contains(Receivers(), "(*Listener).listen") {
		t.Errorf("no receiver in\n%s", Receivers())
	}
}
