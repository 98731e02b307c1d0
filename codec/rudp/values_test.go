package rudp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// value is a packet that RUDP 0.12.0 wrote, field by field as its own code reads it.
type value struct {
	Type  string `json:"type"`
	Hex   string `json:"hex_of_message_with_that_value_only"`
	Value struct {
		App   uint16 `json:"app_id"`
		Seq   seq    `json:"sequence"`
		Last  seq    `json:"ack_sequence"`
		Bits  string `json:"ack_bitfield_hex"`
		Acked []seq  `json:"acked_sequences"`
		Kind  kind   `json:"type"`
		Data  string `json:"data_hex"`
		Rate  uint8  `json:"send_rate"`
	} `json:"value"`
}

// TestValues reads and writes each of the library's packets. It compares the acknowledged numbers.
func TestValues(t *testing.T) {
	text, err := os.ReadFile("testdata/values-rudp-0.12.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var values []value
	if err := json.Unmarshal(text, &values); err != nil || len(values) < 50 {
		t.Fatalf("%d values, %v", len(values), err)
	}
	for _, v := range values {
		wire, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatal(err)
		}
		var p packet
		if err := p.parse(wire); err != nil || !bytes.Equal(p.append(nil), wire) {
			t.Errorf("%s %s: %v, written again as %x", v.Type, v.Hex, err, p.append(nil))
			continue
		}
		want := v.Value
		if p.app != want.App || p.seq != want.Seq || p.acks.last != want.Last || p.kind != want.Kind ||
			fmt.Sprintf("%08x", p.acks.bits) != want.Bits || hex.EncodeToString(p.data) != want.Data {
			t.Errorf("%s %s: read as %+v, want %+v", v.Type, v.Hex, p, want)
		}
		checkAcked(t, &p.acks, want.Acked)
		if got := new(terms); p.kind == kindAccept && (got.parse(p.data) != nil || got.rate != want.Rate) {
			t.Errorf("%s: terms %+v, want a rate of %d", v.Hex, got, want.Rate)
		}
	}
}

// checkAcked compares an acknowledgement with the list of numbers that it covers, newest first.
func checkAcked(t *testing.T, a *acks, want []seq) {
	t.Helper()
	listed := make(map[seq]bool)
	for _, s := range want {
		listed[s] = true
	}
	for back := range seq(ackReach + 1) {
		if s := a.last - back; a.has(s) != listed[s] {
			t.Errorf("acknowledgement %d %08x: %d is acknowledged: %v, want %v", a.last, a.bits, s, a.has(s), listed[s])
		}
	}
}
