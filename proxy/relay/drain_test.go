package relay

import (
	"testing"
	"time"

	"tidegate/codec"
)

// TestDrainWithGrace asserts that a drain refuses new clients at once, while players play on. At the end of the grace
// time, remaining players get a goodbye.
func TestDrainWithGrace(t *testing.T) {
	w := riptideWorld(t, nil)
	stays, leaves := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.proxy.relay.DrainBy(w.Now(), w.Now().Add(time.Minute))
	w.proxy.relay.DrainBy(w.Now(), w.Now().Add(time.Hour)) // a later time changes nothing
	refused := w.join(codec.Hello{})
	w.await("refused", 20*time.Second, refused.gone)
	w.echoes(stays, "still here")
	leaves.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.RunUntil(30*time.Second, w.proxy.relay.Drained)
	if stays.gone() || w.proxy.relay.Drained() {
		t.Fatal("told goodbye too early")
	}
	w.await("told", 35*time.Second, stays.gone)
	if got := stays.find(codec.Disconnected).Reason; got != codec.ServerStopped {
		t.Errorf("told %v, want server-stopped", got)
	}
	w.await("drained", 5*time.Second, w.proxy.relay.Drained)
}

// TestDrainEndsWithTheLastSession asserts that a drain does not wait for the end of its grace time.
func TestDrainEndsWithTheLastSession(t *testing.T) {
	w := riptideWorld(t, nil)
	p := w.connect(codec.Hello{})
	w.proxy.relay.DrainBy(w.Now(), w.Now().Add(time.Hour))
	p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.await("drained", 30*time.Second, w.proxy.relay.Drained)
}
