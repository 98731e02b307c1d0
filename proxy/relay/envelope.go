package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
)

// openEnvelope does the work of received for the messages of an envelope. They are judged and counted one by one, as if
// each had come alone. A session that ends reads no more of them.
func openEnvelope(r *Relay, now time.Time, e *Entry, from policy.Direction, d *bridge.Direction, m *codec.Message) {
	var one codec.Message
	parts := d.Parts(m)
	for parts.Next(&one) {
		if !r.receivedOne(now, e, from, &one, parts.Head(&one), nil) {
			return
		}
	}
	if f, failed := d.Unread(&parts); failed {
		r.countMessage(&e.Value, from, m)
		r.failed(now, e, &f)
	}
}
