package bridge

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"tidegate/codec"
	"tidegate/internal/policy"
)

func TestEnvelopeLayout(t *testing.T) {
	message := codec.Message{Payload: []byte("hi"), ID: 0x0102, HasID: true}
	nameless := codec.Message{Payload: []byte("hi")}
	for _, c := range []struct {
		what     string
		envelope envelope
		message  codec.Message
		want     []byte
	}{
		{"id", envelope{kind: policy.EnvelopeID, hasByte: true, packetID: 0x86}, message, []byte{0x86, 2, 1, 'h', 'i'}},
		{"id, no ID", envelope{kind: policy.EnvelopeID, hasByte: true, packetID: 0x86}, nameless, []byte{0x87, 'h', 'i'}},
		{"id, no packet byte", envelope{kind: policy.EnvelopeID}, message, []byte{2, 1, 'h', 'i'}},
		{"id, neither", envelope{kind: policy.EnvelopeID, rawID: 7}, nameless, []byte{7, 0, 'h', 'i'}},
		{"framed", envelope{kind: policy.EnvelopeFramed, hasByte: true, packetID: 0x86}, message,
			[]byte{0x86, 4, 0, 2, 1, 'h', 'i'}},
		{"framed, no ID", envelope{kind: policy.EnvelopeFramed, hasByte: true, packetID: 0x86}, nameless,
			[]byte{0x87, 2, 0, 'h', 'i'}},
		{"framed, no packet byte", envelope{kind: policy.EnvelopeFramed}, message, []byte{4, 0, 2, 1, 'h', 'i'}},
		{"aggregate", envelope{kind: policy.EnvelopeAggregate, hasByte: true, packetID: 0x9c}, message,
			[]byte{0x9c, 0, 4, 0, 2, 1, 'h', 'i'}},
		{"aggregate, no ID", envelope{kind: policy.EnvelopeAggregate, hasByte: true, packetID: 0x9c}, nameless,
			[]byte{0x9d, 0, 2, 0, 'h', 'i'}},
		{"aggregate, no packet byte", envelope{kind: policy.EnvelopeAggregate}, message, []byte{4, 0, 2, 1, 'h', 'i'}},
	} {
		if got := c.envelope.wrap(nil, &c.message); !bytes.Equal(got, c.want) {
			t.Errorf("%s: wrap = %x, want %x", c.what, got, c.want)
		}
	}
}

// unwrapAll reads every message of a payload.
func unwrapAll(e *envelope, payload []byte) ([]codec.Message, error) {
	rest, hasID, err := e.open(payload)
	if err != nil {
		return nil, err
	}
	var all []codec.Message
	for first := true; first || len(rest) > 0; first = false {
		var m codec.Message
		if rest, err = e.next(rest, hasID, &m); err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

// TestEnvelopeThereAndBack asserts that unwrapping restores the payload and the ID. With a packet byte it also
// restores whether there is an ID. Envelopes with lengths restore several messages at once.
func TestEnvelopeThereAndBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		e := envelope{
			kind:     []policy.Envelope{policy.EnvelopeID, policy.EnvelopeFramed, policy.EnvelopeAggregate}[rng.IntN(3)],
			hasByte:  rng.IntN(2) == 0,
			packetID: byte(rng.Uint32()),
			rawID:    uint16(rng.Uint32()),
		}
		several := 1
		if e.framed() {
			several = 1 + rng.IntN(5)
		}
		hasID := !e.hasByte || rng.IntN(2) == 0
		wire := e.begin(nil, hasID)
		var sent []codec.Message
		for range several {
			sent = append(sent, randomMessage(rng, hasID))
			wire = e.add(wire, &sent[len(sent)-1])
		}
		back, err := unwrapAll(&e, wire)
		if err != nil || len(back) != several {
			t.Fatalf("%+v %+v: came back as %v, %v", e, sent, back, err)
		}
		for i, got := range back {
			m := sent[i]
			if !bytes.Equal(got.Payload, m.Payload) || got.HasID != m.HasID || m.HasID && got.ID != m.ID {
				t.Fatalf("%+v: %+v came back as %+v", e, m, got)
			}
		}
	}
}

func randomMessage(rng *rand.Rand, hasID bool) codec.Message {
	m := codec.Message{Payload: make([]byte, rng.IntN(40)), HasID: hasID}
	for i := range m.Payload {
		m.Payload[i] = byte(rng.Uint32())
	}
	if hasID {
		m.ID = uint16(rng.Uint32())
	}
	return m
}

func TestFramedHoldsSeveral(t *testing.T) {
	e := envelope{kind: policy.EnvelopeFramed, hasByte: true, packetID: 0x86}
	payload := []byte{0x86, 3, 0, 1, 0, 'a', 2, 0, 2, 0, 4, 0, 3, 0, 'b', 'c'}
	all, err := unwrapAll(&e, payload)
	if err != nil || len(all) != 3 {
		t.Fatalf("unwrapped %v, %v; want three messages", all, err)
	}
	for i, want := range []string{"a", "", "bc"} {
		if got := all[i]; got.ID != uint16(i+1) || string(got.Payload) != want {
			t.Errorf("message %d = %d %q, want %d %q", i, got.ID, got.Payload, i+1, want)
		}
	}
	// A payload cut at any place is an error, or holds fewer messages.
	for n := range payload {
		if got, err := unwrapAll(&e, payload[:n]); err == nil && len(got) >= 3 {
			t.Errorf("%d of %d bytes unwrapped as three messages", n, len(payload))
		}
	}
}

func TestEnvelopeRefuses(t *testing.T) {
	for _, c := range []struct {
		what     string
		envelope envelope
		payload  []byte
	}{
		{"nothing", envelope{hasByte: true, packetID: 0x86}, nil},
		{"another packet byte", envelope{hasByte: true, packetID: 0x86}, []byte{0x85, 1, 0}},
		{"no room for an ID", envelope{hasByte: true, packetID: 0x86}, []byte{0x86, 1}},
		{"no room for a length", envelope{kind: policy.EnvelopeFramed}, []byte{1}},
		{"no compression", envelope{kind: policy.EnvelopeAggregate, hasByte: true, packetID: 0x86}, []byte{0x86}},
		{"a compression", envelope{kind: policy.EnvelopeAggregate, hasByte: true, packetID: 0x86},
			[]byte{0x86, 1, 2, 0, 1, 0}},
		{"a length beyond the end", envelope{kind: policy.EnvelopeFramed}, []byte{3, 0, 1, 0}},
		{"a frame too short for its ID", envelope{kind: policy.EnvelopeFramed}, []byte{1, 0, 1}},
	} {
		if _, err := unwrapAll(&c.envelope, c.payload); !errors.Is(err, errEnvelope) {
			t.Errorf("%s: err = %v, want errEnvelope", c.what, err)
		}
	}
	framed := envelope{kind: policy.EnvelopeFramed}
	if framed.fits(&codec.Message{Payload: make([]byte, 1<<16-2)}) {
		t.Error("a payload that its length cannot tell fits")
	}
}
