package riptide

import "tidegate/codec"

// farewell is a server's last word: Reject or Disconnect.
//
//	body 0  reason: of rejection or of disconnection, by type
//	then    data: the game's own, with Custom and Kicked only
//
// A client's Disconnect is the type alone. docs/protocols/riptide.md#reasons
type farewell struct {
	kind   kind
	reason uint8
}

// farewellLen is where the data begins in the body.
const farewellLen = 1

func (f *farewell) parse(w *dialect, d []byte) error {
	if bodyLen(d) < farewellLen {
		return codec.ErrMalformed
	}
	f.kind, f.reason = w.kindOf(d), w.byteAt(d, 0)
	if f.kind == kindReject {
		f.reason = w.rejectReason(f.reason)
	}
	return nil
}

// append appends the whole datagram. Data that does not fit in limit bytes is left out; the reason still goes.
func (f *farewell) append(w *dialect, b []byte, limit int, data []byte, pad uint8) []byte {
	if !f.carriesData() || w.size(farewellLen, len(data), pad) > limit {
		data = nil
	}
	reason := [farewellLen]byte{f.reason}
	if f.kind == kindReject {
		reason[0] = w.rejectByte(f.reason)
	}
	return w.append(b, f.kind, reason[:], data, pad)
}

func (f *farewell) carriesData() bool {
	return f.kind == kindReject && f.reason == rejectCustom || f.kind == kindDisconnect && f.reason == disconnectKicked
}

// Reasons in Reject, numbered as in 2.1+.
const (
	rejectNoConnection uint8 = iota
	rejectAlreadyConnected
	rejectServerFull
	rejectRejected
	rejectCustom

	// rejectPending says that the server is still deciding, which is no refusal.
	rejectPending   uint8 = 0xff
	rejectPending20 uint8 = 2 // how 2.0 writes it
)

// rejection is the farewell that refuses a client for why.
func rejection(why codec.Goodbye) farewell {
	f := farewell{kind: kindReject, reason: rejectRejected}
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

// Reasons in Disconnect. A real client of 2.1+ dies of the first two, so they are only read, never written.
const (
	disconnectNeverConnected uint8 = iota
	disconnectRejected
	disconnectTransportError
	disconnectTimedOut
	disconnectKicked
	disconnectServerStopped
	disconnectDisconnected
	disconnectPoorConnection
	// disconnectStopped210 is how "server stopped" of 2.1.0 to 2.2.0 reads: they send the bytes 05 05.
	disconnectStopped210 uint8 = 0x50
)

// disconnection is the farewell that ends a client's session for why.
func disconnection(w *dialect, why codec.Goodbye) farewell {
	f := farewell{kind: kindDisconnect, reason: disconnectKicked}
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

// meaning is the farewell's reason in the contract's terms. Unknown reasons of later versions keep their gist.
func (f *farewell) meaning() codec.Reason {
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
