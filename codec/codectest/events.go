package codectest

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// handle checks whether the contract allows an event at this point, and then acts as the application.
func (s *side) handle(now time.Time, e codec.Event) {
	if s.over {
		s.r.Errorf("%s: %v after Disconnected", s.name, e.Kind)
		return
	}
	switch e.Kind {
	case codec.Asked:
		s.handleAsked(now, e)
	case codec.Granted:
		if s.granted || s.connected || s.name != clientName {
			s.r.Errorf("%s: Granted twice, after Connected or on the accepting side", s.name)
		}
		s.granted, s.grantedBy = true, e.Identity
	case codec.Connected:
		if s.connected {
			s.r.Errorf("%s: Connected twice", s.name)
		}
		s.connected, s.clientID = true, e.Client
	case codec.Received:
		if !s.connected {
			s.r.Errorf("%s: Received before Connected", s.name)
		}
		if s.onReceived != nil {
			s.onReceived(e.Message)
		} else {
			s.in.arrived(e.Message)
		}
	case codec.Delivered, codec.Lost:
		s.out.answered(e.Receipt, e.Kind == codec.Delivered)
	case codec.Joined:
		s.joined = append(s.joined, e.Client)
	case codec.Left:
		s.left = append(s.left, e.Client)
	case codec.Disconnected:
		s.over = true
		s.goodbye = codec.Goodbye{Reason: e.Reason, Data: bytes.Clone(e.Payload), Pad: e.Pad}
	default:
		s.r.Errorf("%s: unknown event kind %d", s.name, e.Kind)
	}
}

// handleAsked records the client that asks, and decides when to admit it.
func (s *side) handleAsked(now time.Time, e codec.Event) {
	if s.wasAsked || s.connected || s.name != serverName {
		s.r.Errorf("%s: Asked twice, after Connected or on the dialing side", s.name)
	}
	s.wasAsked = true
	s.asked = e
	s.asked.Payload = bytes.Clone(e.Payload)
	if s.admitAfter >= 0 {
		s.admitAt = now.Add(s.admitAfter)
	}
}

// sameGoodbye reports whether the received goodbye is the expected one.
func sameGoodbye(heard, want codec.Goodbye) bool {
	return heard.Reason == want.Reason && bytes.Equal(heard.Data, want.Data) && heard.Pad == want.Pad
}
