package riptide

import (
	"testing"
	"time"

	"tidegate/codec"
)

// TestToleratedPatience: a message that is not acknowledged while that is our fault is sent slowly beyond 15 times; afterwards the
// connection is given up.
func TestToleratedPatience(t *testing.T) {
	p := deaf(t, Options{})
	until := p.now.Add(3 * time.Second)
	p.client.TolerateLoss(until)
	for p.client.state == connected && p.now.Sub(until) < 10*time.Second {
		p.step()
		if p.client.state != connected && p.now.Before(until) {
			t.Fatalf("given up %v before the excuse was over", until.Sub(p.now))
		}
	}
	if over := p.now.Sub(until); p.client.state == connected || over > time.Second {
		t.Errorf("given up %v after the excuse was over, want within a second", over)
	}
	wantKinds(t, p.client, codec.Lost, codec.Lost, codec.Disconnected)
}

// TestToleratedQuality: what is measured meanwhile ends no connection, then or later.
func TestToleratedQuality(t *testing.T) {
	p := newPair(t, Options{})
	later := p.now.Add(time.Second)
	for range 3 * qualityRuns {
		p.client.TolerateLoss(later)
		if p.client.sends.delivered(maxSends) || p.client.notifier.loss.result(false) {
			t.Fatal("a connection that is excused is too poor")
		}
	}
	for i := range qualityRuns - 1 {
		if p.client.sends.delivered(maxSends) && i < qualityRuns-2 {
			t.Fatalf("too poor after %d measures, want %d", i+1, qualityRuns)
		}
	}
}
