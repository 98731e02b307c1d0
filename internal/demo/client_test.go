package demo

import (
	"testing"
	"time"

	"tidegate/codec"
)

// TestClientRecords gives a client all kinds of echoes and checks its counts.
func TestClientRecords(t *testing.T) {
	own := probe{number: 0, client: 1, reliable: true}
	missing := Delivery{Sent: 1, Missing: 1}
	for _, step := range []struct {
		what       string
		echo       probe
		id         uint16 // added to the right ID
		reliable   Delivery
		unreliable Exchange
		changed    uint64
	}{
		{"its reliable message", own, 0, Delivery{Sent: 1, Returned: 1}, Exchange{Sent: 1}, 0},
		{"its unreliable message", probe{client: 1}, 0, missing, Exchange{Sent: 1, Returned: 1}, 0},
		{"another ID", own, 1, missing, Exchange{Sent: 1}, 1},
		{"another client's message", probe{client: 2, reliable: true}, 0, missing, Exchange{Sent: 1}, 1},
		{"a number never sent", probe{number: 1, client: 1, reliable: true}, 0, missing, Exchange{Sent: 1}, 1},
	} {
		c := &client{index: 1, pair: MainPair(), form: formOf(MainPair(), MainPair().from), reliable: newLedger(),
			unreliable: Exchange{Sent: 1}}
		c.reliable.send()
		var times latencies
		m := codec.Message{Payload: step.echo.append(nil), ID: step.echo.id() + step.id, HasID: true}
		c.receive(&m, time.Millisecond, &times)
		got := c.reliable.delivery()
		if got != step.reliable || c.unreliable != step.unreliable || c.changed != step.changed {
			t.Errorf("%s: reliable %+v, unreliable %+v, changed %d", step.what, got, c.unreliable, c.changed)
		}
		if want := 1 - step.changed; times.total != want {
			t.Errorf("%s: %d round trips measured, want %d", step.what, times.total, want)
		}
	}
}
