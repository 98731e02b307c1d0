package riptide

import (
	"bytes"
	"strings"
	"time"

	"tidegate/codec"
)

// goodbye is a server's last message: Reject or Disconnect.
//
//	body 0  reason: of rejection or of disconnection, by type
//	then    data: the game's own, with Custom and Kicked only
//
// A client's Disconnect is the type alone. docs/protocols/riptide.md#reasons
type goodbye struct {
	kind   kind
	reason uint8
}

// goodbyeLen is the place in the body where the data begins.
const goodbyeLen = 1

func (f *goodbye) parse(w *dialect, d []byte) error {
	if bodyLen(d) < goodbyeLen {
		return codec.ErrMalformed
	}
	f.kind, f.reason = w.kindOf(d), w.byteAt(d, 0)
	if f.kind == kindReject {
		f.reason = w.rejectReason(f.reason)
	}
	return nil
}

// append appends the whole datagram. It leaves out data that does not fit in limit bytes, but not the reason.
func (f *goodbye) append(w *dialect, b []byte, limit int, data []byte, pad uint8) []byte {
	if !f.carriesData() || w.size(goodbyeLen, len(data), pad) > limit {
		data = nil
	}
	reason := [goodbyeLen]byte{f.reason}
	if f.kind == kindReject {
		reason[0] = w.rejectByte(f.reason)
	}
	return w.append(b, f.kind, reason[:], data, pad)
}

func (f *goodbye) carriesData() bool {
	return f.kind == kindReject && f.reason == rejectCustom || f.kind == kindDisconnect && f.reason == disconnectKicked
}

// Reasons in Reject, numbered as in 2.1+.
const (
	rejectNoConnection uint8 = iota
	rejectAlreadyConnected
	rejectServerFull
	rejectRejected
	rejectCustom

	// rejectPending says that the server is still deciding, so it does not refuse.
	rejectPending   uint8 = 0xff
	rejectPending20 uint8 = 2 // as 2.0 writes it
)

// rejection returns the goodbye that refuses a client.
func rejection(why codec.Goodbye) goodbye {
	f := goodbye{kind: kindReject, reason: rejectRejected}
	switch {
	case why.Reason == codec.RejectedCustom || len(why.Data) > 0:
		f.reason = rejectCustom
	case why.Reason == codec.NoConnection:
		f.reason = rejectNoConnection
	case why.Reason == codec.AlreadyConnected:
		f.reason = rejectAlreadyConnected
	case why.Reason == codec.ServerFull:
		f.reason = rejectServerFull
	}
	return f
}

// Reasons in Disconnect. The first two crash a real client of 2.1+, so they are only read, never written.
const (
	disconnectNeverConnected uint8 = iota
	disconnectRejected
	disconnectTransportError
	disconnectTimedOut
	disconnectKicked
	disconnectServerStopped
	disconnectDisconnected
	disconnectPoorConnection
	// disconnectStopped210 is "server stopped" as 2.1.0 to 2.2.0 write it: they send the bytes 05 05.
	disconnectStopped210 uint8 = 0x50
)

// disconnection returns the goodbye that ends a client's session.
func disconnection(w *dialect, why codec.Goodbye) goodbye {
	f := goodbye{kind: kindDisconnect, reason: disconnectKicked}
	switch why.Reason {
	case codec.TransportError:
		f.reason = disconnectTransportError
	case codec.TimedOut:
		f.reason = disconnectTimedOut
	case codec.ServerStopped:
		f.reason = disconnectServerStopped
	case codec.Closed:
		f.reason = disconnectDisconnected
	case codec.PoorConnection:
		f.reason = w.poorConnection
	}
	return f
}

// meaning returns the goodbye's reason in the contract's terms. An unknown reason of a later version becomes a general
// one.
func (f *goodbye) meaning() codec.Reason {
	if f.kind == kindReject {
		switch f.reason {
		case rejectNoConnection:
			return codec.NoConnection
		case rejectAlreadyConnected:
			return codec.AlreadyConnected
		case rejectServerFull:
			return codec.ServerFull
		case rejectCustom:
			return codec.RejectedCustom
		}
		return codec.Rejected
	}
	switch f.reason {
	case disconnectNeverConnected:
		return codec.NoConnection
	case disconnectRejected:
		return codec.Rejected
	case disconnectTransportError:
		return codec.TransportError
	case disconnectTimedOut:
		return codec.TimedOut
	case disconnectKicked:
		return codec.Kicked
	case disconnectServerStopped, disconnectStopped210:
		return codec.ServerStopped
	case disconnectPoorConnection:
		return codec.PoorConnection
	}
	return codec.Closed
}

// maxText is the size in bytes of the longest text of a goodbye. Both versions can write such a length, and the text
// fits into every datagram beside the headers.
const maxText = 400

// appendText appends text so that a game can read it with GetString in its Disconnected or ConnectionFailed event. It
// cuts a text that is too long.
func appendText(v Version, b []byte, text string) (data []byte, pad uint8) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	w := NewWriter(v, b)
	w.String(text)
	data, pad, _ = w.Finish() // a length within maxText causes no error
	return data, pad
}

// Nothing in a Disconnect is secret, so it may be forged. A peer that says goodbye in session is believed once it does
// not answer. A server answers heartbeats, and a client acknowledges repeated messages. A client whose game stands
// still answers nothing. It has more time, because it cannot have said goodbye.
const (
	doubtGrace = 200 * time.Millisecond // for datagrams that the goodbye has overtaken
	doubtProbe = 60 * time.Millisecond  // between two questions; one answer to some seven is enough
	doubtTime  = 600 * time.Millisecond // how long we wait for an answer, beside two round trips
)

// kindQuestion is a type of message that does not exist. A peer acknowledges it, and drops it.
const kindQuestion kind = 15

// doubt is a goodbye that is not believed yet.
type doubt struct {
	goodbye codec.Event
	since   time.Time `cbor:"4,keyasint,omitempty"` // zero: there is none
	believe time.Time `cbor:"5,keyasint,omitempty"` // as well
	probeAt time.Time `cbor:"6,keyasint,omitempty"` // when the peer is asked next
}

// next returns when stepDoubt is due, or the zero time.
func (d *doubt) next() time.Time { return codec.Earliest(d.believe, d.probeAt) }

// hearGoodbye handles a goodbye. Over a stream it cannot be forged, and before the session it is a refusal.
func (c *Conn) hearGoodbye(now time.Time, goodbye codec.Event) {
	switch {
	case c.state != connected || c.options.Stream:
		c.endWith(goodbye)
	case c.doubt.believe.IsZero():
		goodbye.Payload = bytes.Clone(goodbye.Payload)
		c.doubt = doubt{goodbye: goodbye, since: now}
		c.awaitSign(now)
	}
}

// awaitSign begins to wait for a sign of life.
func (c *Conn) awaitSign(now time.Time) {
	c.doubt.believe = now.Add(doubtTime + 2*c.rtt.Smooth)
	if c.server && c.isStalled(now) {
		c.doubt.believe = now.Add(c.options.HeartbeatInterval * 5 / 2)
	}
	c.doubt.probeAt = now.Add(doubtGrace)
}

// isStalled reports whether a client has owed us a sign of life for some time: an acknowledgement, or a heartbeat.
func (c *Conn) isStalled(now time.Time) bool {
	if now.Sub(c.heard) > c.options.HeartbeatInterval*5/4 {
		return true
	}
	m := c.flight.get(c.flight.oldest)
	return m != nil && m.waited+now.Sub(m.sentAt) > doubtGrace+2*c.rtt.Smooth
}

// question asks whether the peer is there. A client gets the number of a message that it has acknowledged, so it drops
// the question as a duplicate.
func (c *Conn) question(now time.Time) {
	if !c.server {
		c.sendHeartbeat(now)
		return
	}
	n := clientNote{kind: kindQuestion, seq: c.flight.oldest - 1}
	if b, ok := c.reply(5); ok {
		c.control.end(n.append(c.dialect, b))
	}
}

// stepDoubt believes a goodbye of a peer that is silent, or asks whether it is there.
func (c *Conn) stepDoubt(now time.Time) {
	d := &c.doubt
	switch {
	case c.state == closed || d.believe.IsZero():
	case codec.IsLate(now, d.next()):
		c.awaitSign(now)
	case !now.Before(d.believe):
		c.endWith(d.goodbye)
	case !d.probeAt.IsZero() && !now.Before(d.probeAt):
		d.probeAt = now.Add(doubtProbe)
		c.question(now)
	}
}
