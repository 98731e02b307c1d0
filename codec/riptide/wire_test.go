package riptide

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// The dialects.
var v22, v20 = &dialects[V22], &dialects[V20]

// Golden datagrams are from captures of Riptide 2.2.1 and 2.0.0, except where a comment says otherwise.

func TestAckGolden(t *testing.T) {
	for _, c := range []struct {
		w    *dialect
		hex  string
		want ack
	}{
		{v22, "1100100000", ack{last: 1, bits: 1, forSeq: 1}},
		{v22, "4100f000700000", ack{last: 4, bits: 15, forSeq: 3}},
		{v22, "a100f03f300100", ack{last: 10, bits: 1023, forSeq: 9}},
		{v20, "0101000100", ack{last: 1, bits: 1, forSeq: 1}},
		{v20, "02010000001600", ack{last: 1, bits: 0, forSeq: 22}},
		{v20, "0205001d000400", ack{last: 5, bits: 0x1d, forSeq: 4}},
	} {
		d := codectest.Unhex(t, c.hex)
		var got ack
		if err := got.parse(c.w, d); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.hex, got, err, c.want)
		}
		if again := c.want.append(c.w, nil); !bytes.Equal(again, d) {
			t.Errorf("%+v: %x, want %s", c.want, again, c.hex)
		}
		truncations(t, d, func(b []byte) error { return new(ack).parse(c.w, b) })
	}
}

// TestAck210: Riptide 2.1.0 to 2.1.2 append forSeq even if it adds nothing.
func TestAck210(t *testing.T) {
	var a ack
	want := ack{last: 1, bits: 1, forSeq: 1}
	if err := a.parse(v22, codectest.Unhex(t, "11001000200000")); err != nil || a != want {
		t.Errorf("%+v, %v; want %+v", a, err, want)
	}
}

func TestHeartbeatGolden(t *testing.T) {
	for _, c := range []struct {
		w    *dialect
		hex  string
		want heartbeat
	}{
		{v22, "04f0ff0f", heartbeat{ping: 0, rtt: -1}},
		{v22, "14200000", heartbeat{ping: 1, rtt: 2}},
		{v20, "0500ffff", heartbeat{ping: 0, rtt: -1}},
		{v20, "05010200", heartbeat{ping: 1, rtt: 2}},
	} {
		d := codectest.Unhex(t, c.hex)
		var got heartbeat
		if err := got.parse(c.w, d); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.hex, got, err, c.want)
		}
		if again := c.want.append(c.w, nil); !bytes.Equal(again, d) {
			t.Errorf("%+v: %x, want %s", c.want, again, c.hex)
		}
		truncations(t, d, func(b []byte) error { return new(heartbeat).parse(c.w, b) })
	}
	for _, c := range []struct {
		w   *dialect
		hex string
	}{{v22, "2400"}, {v20, "0502"}} {
		d := codectest.Unhex(t, c.hex)
		if ping, err := parseHeartbeatAnswer(c.w, d); err != nil || ping != 2 {
			t.Errorf("%x: ping %d, %v; want 2", d, ping, err)
		}
		if again := appendHeartbeatAnswer(c.w, nil, 2); !bytes.Equal(again, d) {
			t.Errorf("%x, want %x", again, d)
		}
		truncations(t, d, func(b []byte) error { _, err := parseHeartbeatAnswer(c.w, b); return err })
	}
}

func TestClientNoteGolden(t *testing.T) {
	for _, c := range []struct {
		w    *dialect
		hex  string
		want clientNote
	}{
		{v22, "1800100000", clientNote{kindWelcome, 1, 1}},
		{v22, "2900200000", clientNote{kindClientConnected, 2, 2}},
		{v22, "3a00200000", clientNote{kindClientDisconnected, 3, 2}},
		{v20, "0801000100", clientNote{kindWelcome, 1, 1}},
		{v20, "0902000200", clientNote{kindClientConnected, 2, 2}},
		{v20, "0a03000200", clientNote{kindClientDisconnected, 3, 2}},
	} {
		d := codectest.Unhex(t, c.hex)
		var got clientNote
		if err := got.parse(c.w, d); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.hex, got, err, c.want)
		}
		if again := c.want.append(c.w, nil); !bytes.Equal(again, d) {
			t.Errorf("%+v: %x, want %s", c.want, again, c.hex)
		}
		truncations(t, d, func(b []byte) error { return new(clientNote).parse(c.w, b) })
	}
}

func TestUserHeaderGolden(t *testing.T) {
	for _, c := range []struct {
		w       *dialect
		hex     string
		want    userHeader
		payload string
	}{
		{v22, "10a005", userHeader{id: 1}, "5a"},
		{v22, "27001000", userHeader{reliable: true, seq: 2, id: 1}, ""},
		{v22, "27001000000000a0f70aaa0e", userHeader{reliable: true, seq: 2, id: 1}, "000000007aafa0ea"},
		{v20, "003f00aa", userHeader{id: 63}, "aa"},
		{v20, "0704003f00aa", userHeader{reliable: true, seq: 4, id: 63}, "aa"},
	} {
		d := codectest.Unhex(t, c.hex)
		var got userHeader
		at, err := got.parse(c.w, d)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.hex, got, err, c.want)
			continue
		}
		payload, pad := c.w.payload(nil, d, at)
		if fmt.Sprintf("%x", payload) != c.payload || pad != 0 {
			t.Errorf("%s: payload %x pad %d, want %s", c.hex, payload, pad, c.payload)
		}
		if again := c.w.append(nil, c.w.kindOf(d), c.want.append(c.w, nil), payload, pad); !bytes.Equal(again, d) {
			t.Errorf("%+v: %x, want %s", c.want, again, c.hex)
		}
		truncations(t, d[:at+1], func(b []byte) error { _, err := new(userHeader).parse(c.w, b); return err })
	}
}

func TestNotifyHeaderGolden(t *testing.T) {
	d := codectest.Unhex(t, "4600e0500040000000d0651c2c66095d3005")
	want := notifyHeader{last: 4, bits: 14, seq: 5}
	var got notifyHeader
	if err := got.parse(d); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	payload, pad := appendBody(nil, d, notifyHeaderLen)
	if again := appendDatagram(nil, kindNotify, want.append(nil), payload, pad); !bytes.Equal(again, d) {
		t.Errorf("%x, want %x", again, d)
	}
	truncations(t, d[:notifyHeaderLen+1], func(b []byte) error { return new(notifyHeader).parse(b) })
}

func TestGoodbyeGolden(t *testing.T) {
	for _, c := range []struct {
		w       *dialect
		hex     string
		want    goodbye
		data    string
		meaning codec.Reason
	}{
		{v22, "2300", goodbye{kindReject, rejectServerFull}, "", codec.ServerFull},
		{v22, "3300", goodbye{kindReject, rejectRejected}, "", codec.Rejected},
		{
			v22, "432016e6e65646a60352e74697c6062203330303", goodbye{kindReject, rejectCustom}, "banned: until 2030",
			codec.RejectedCustom,
		},
		{v22, "4500", goodbye{kindDisconnect, disconnectKicked}, "", codec.Kicked},
		{v22, "451066b606", goodbye{kindDisconnect, disconnectKicked}, "afk", codec.Kicked},
		{v22, "5500", goodbye{kindDisconnect, disconnectServerStopped}, "", codec.ServerStopped},
		{v20, "0403", goodbye{kindReject, rejectServerFull}, "", codec.ServerFull},
		{v20, "0404", goodbye{kindReject, rejectRejected}, "", codec.Rejected},
		{
			v20, "040562616e6e65643a20756e74696c2032303330", goodbye{kindReject, rejectCustom}, "banned: until 2030",
			codec.RejectedCustom,
		},
		{v20, "0604", goodbye{kindDisconnect, disconnectKicked}, "", codec.Kicked},
		{v20, "060461666b", goodbye{kindDisconnect, disconnectKicked}, "afk", codec.Kicked},
		{v20, "0605", goodbye{kindDisconnect, disconnectServerStopped}, "", codec.ServerStopped},
	} {
		d := codectest.Unhex(t, c.hex)
		var got goodbye
		if err := got.parse(c.w, d); err != nil || got != c.want || got.meaning() != c.meaning {
			t.Errorf("%s: %+v, %v; want %+v", c.hex, got, err, c.want)
			continue
		}
		data, pad := c.w.payload(nil, d, goodbyeLen)
		if string(data) != c.data {
			t.Errorf("%s: data %q, want %q", c.hex, data, c.data)
		}
		if again := c.want.append(c.w, nil, maxMessage, data, pad); !bytes.Equal(again, d) {
			t.Errorf("%+v: %x, want %s", c.want, again, c.hex)
		}
		truncations(t, d[:2], func(b []byte) error { return new(goodbye).parse(c.w, b) })
	}
}

// truncations checks that no truncated d parses, except empty ones, which Receive refuses.
func truncations(t *testing.T, d []byte, parse func([]byte) error) {
	t.Helper()
	for n := 1; n < len(d); n++ {
		if parse(d[:n]) == nil {
			t.Errorf("%d of the %d bytes %x parsed without error", n, len(d), d)
		}
	}
}

func TestTextOfGoodbyes(t *testing.T) {
	for _, v := range []Version{V20, V22} {
		for _, text := range []string{"", "afk", "räuberisch", strings.Repeat("x", maxText)} {
			data, pad := appendText(v, []byte("before"), text)
			r := NewReader(v, data[len("before"):], pad)
			if got := string(r.AppendString(nil)); got != text {
				t.Errorf("version %v reads %q, want %q", v, got, text)
			}
		}
		data, _ := appendText(v, nil, strings.Repeat("x", 5000))
		if len(data) > maxText+2 {
			t.Errorf("version %v writes %d bytes", v, len(data))
		}
	}
}
