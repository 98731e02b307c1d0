package rudp

import (
	"bytes"
	"slices"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// compare compares our datagrams with the real side's. Before the client has answered, our server repeats Accept, a
// limited number of times. The real one sends KeepAlive.
func (r *replay) compare(want *packet, d []byte, sent [][]byte) {
	if r.conn.state == admitted && r.conn.attempts == maxAccepts && len(sent) == 0 {
		return
	}
	if len(sent) != 1 {
		r.t.Errorf("sent %x, the real one %x", sent, d)
		return
	}
	got := parse(r.t, sent[0])
	if got.kind == kindAccept && want.kind == kindKeepAlive && got.seq == want.seq && got.acks == want.acks {
		return
	}
	if !bytes.Equal(sent[0], d) {
		r.t.Errorf("sent %x, the real one %x", sent[0], d)
	}
}

// note records the expected effects of a datagram of the peer.
func (r *replay) note(d []byte) {
	var p packet
	if p.parse(d) != nil || p.app != r.p.options.AppID || r.conn != nil && r.conn.state == closed {
		return
	}
	if p.kind == kindAccept || r.side == "server" && p.kind != kindRequest {
		r.sessionIsOpen = true
	}
	if !r.sessionIsOpen || int(p.seq) <= r.newest {
		return
	}
	r.newest = int(p.seq)
	for back := range seq(ackReach + 1) {
		if p.acks.has(p.acks.last - back) {
			r.acknowledged[p.acks.last-back] = true
		}
	}
	if p.kind == kindData {
		r.wantReceived = append(r.wantReceived, bytes.Clone(p.data))
	}
}

func (r *replay) collect() {
	for _, e := range codectest.Drain(r.conn) {
		switch e.Kind {
		case codec.Received:
			r.received = append(r.received, e.Payload)
		case codec.Delivered, codec.Lost:
			if _, twice := r.answers[e.Receipt]; twice {
				r.t.Errorf("receipt %d answered twice", e.Receipt)
			}
			r.answers[e.Receipt] = e.Kind
		case codec.Disconnected:
			r.ended = append(r.ended, e.Reason)
		}
	}
}

func (r *replay) check() {
	wantEnds := []codec.Reason{r.ending}
	if r.ending == codec.ReasonNone {
		wantEnds = nil
	}
	if !slices.Equal(r.ended, wantEnds) {
		r.t.Errorf("ended by %v, want %v", r.ended, r.ending)
	}
	if !slices.EqualFunc(r.received, r.wantReceived, bytes.Equal) {
		r.t.Errorf("received %x, want %x", r.received, r.wantReceived)
	}
	for receipt, in := range r.carriedIn {
		want := codec.Lost
		if r.acknowledged[in] {
			want = codec.Delivered
		}
		if got, ok := r.answers[receipt]; !ok || got != want {
			r.t.Errorf("message in packet %d: %v (%v), want %v", in, got, ok, want)
		}
	}
}
