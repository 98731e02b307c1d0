package raknet

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tidegate/codec"
)

// describeAll returns a describer's text for a capture, one line per datagram and per message.
func describeAll(t *testing.T, c capture) (lines []string) {
	t.Helper()
	describers := make(map[int]*describer)
	for i := range c.Lines {
		d := &c.Lines[i]
		if describers[d.Conn] == nil {
			describers[d.Conn] = new(describer)
		}
		text, messages, err := describers[d.Conn].describe(d.From == "server", d.Datagram)
		if err != nil {
			t.Errorf("%s, datagram %d (%s): %v", c.Name, i+1, d.What, err)
		}
		if text == "" {
			t.Errorf("%s, datagram %d has no text", c.Name, i+1)
		}
		lines = append(append(lines, d.From+" "+text), messages...)
	}
	return lines
}

// TestDescribeCaptures: the describer explains every datagram of real peers.
func TestDescribeCaptures(t *testing.T) {
	for _, c := range captures(t) {
		describeAll(t, c)
	}
}

func TestDescribeWords(t *testing.T) {
	for _, c := range []struct {
		capture string
		says    []string
	}{
		{"offline_ping_01.jsonl", []string{
			"client unconnected ping: time 10, GUID 000660c47c25474b",
			`server unconnected pong: time 10, GUID 000660c47c1a9097, "MOTD;hello;world"`,
		}},
		{"offline_ping_open_connections_02.jsonl", []string{"only if there is a free place"}},
		{"password_ok.jsonl", []string{
			"client open connection request 1: version 6, probing for MTU 1492",
			"server open connection reply 1: GUID 000660c4838ca12f, MTU 1492",
			"client open connection request 2: server is 127.0.0.1:42095, MTU 1492, GUID 000660c483976592",
			"server open connection reply 2: GUID 000660c4838ca12f, client is 127.0.0.1:42814, MTU 1492",
			`reliable #0: connection request: GUID 000660c483976592, time 21, password "secret"`,
			"reliable-ordered #0 order 0 channel 0: connection request accepted: client is 127.0.0.1:42814, index 0, " +
				"10 addresses of the server, time of request 21, time 727",
			"reliable-ordered #1 order 0 channel 0: new incoming connection: server is 127.0.0.1:42095, " +
				"10 addresses of the client, server's time 727, time 31",
			"unreliable: connected pong: time of ping 31, time 747",
			"reliable-ordered #1 order 1 channel 0: game message 0x86, 32 bytes: 86030000000000abf81736557493b2d1",
			"server ACK of #1-#3",
			"reliable-ordered #3 order 2 channel 0: disconnection",
		}},
		{"reliability_4_reliable_sequenced.jsonl", []string{"reliable-sequenced #3 sequence 1 order 0 channel 3: game"}},
		{"bit_length_not_multiple_of_8.jsonl", []string{"game message 0x86, 77 bits: 86030000000000abf817"}},
		{"ipv6_connect.jsonl", []string{"server is [::1]:"}},
		{"loss_nack.jsonl.gz", []string{"NACK of #", ", sent again: game message"}},
		{"split_20k.jsonl.gz", []string{
			"part 1 of 14 of split message 0, 1432 bytes", "split message 0 complete: game message 0x86, 20000 bytes",
		}},
		{"wrong_password.jsonl", []string{"refused, invalid-password"}},
		{"server_full.jsonl", []string{"refused, server-full: GUID "}},
		{"incompatible_version_new_server.jsonl", []string{"refused, incompatible version: server has "}},
		{"cpp_client_gork_server_cookie.jsonl", []string{"request 2: server is 127.0.0.1:", ", cookie "}},
		{"security_wrong_key.jsonl", []string{"cookie 65653967, public key"}},
	} {
		lines := describeAll(t, loadCapture(t, c.capture))
		for _, says := range c.says {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, says) }) {
				t.Errorf("%s does not say %q", c.capture, says)
			}
		}
	}
}

// TestDescribeCiphertext: after a reply 2 that starts encryption all is unreadable, until the next connection.
func TestDescribeCiphertext(t *testing.T) {
	reply := openConnectionReply2{guid: 1, mtu: 1492}
	plain := reply.append(nil)
	secured := append(plain[:len(plain)-1:len(plain)-1], 0x80)
	secured = append(secured, make([]byte, 128)...)
	d := new(describer)
	for i, step := range []struct {
		datagram []byte
		says     string
	}{
		{secured, "open connection reply 2: GUID 0000000000000001, client is 0.0.0.0:0, MTU 1492, encrypted from here on"},
		{[]byte{0x43, 0xa2, 0x87, 0xde}, "ciphertext of 4 bytes"},
		{plain, "open connection reply 2: GUID 0000000000000001, client is 0.0.0.0:0, MTU 1492"},
		{[]byte{0xc0, 0, 0}, "ACK of nothing"},
	} {
		if text, _, err := d.describe(true, step.datagram); err != nil || text != step.says {
			t.Errorf("step %d: %q, %v; want %q", i, text, err, step.says)
		}
	}
}

func TestDescribeMalformed(t *testing.T) {
	whole := capsule{mode: codec.Reliable, payload: []byte{0x86, 1}}
	ping := capsule{payload: []byte{idConnectedPing, 1}}
	for _, c := range []struct {
		what     string
		datagram []byte
		messages int
	}{
		{"nothing", nil, 0},
		{"no bit of a datagram", []byte{0x03, 1, 2, 3}, 0},
		{"a list cut short", []byte{0xc0, 0, 1, 1}, 0},
		{"an offline message cut short", appendOffline(nil, idOpenConnectionReply2), 0},
		{"a torn capsule", append(whole.append(appendDataHeader(nil, 0, false, false)), 0x40, 0xff, 0xff, 0), 1},
		{"a ping cut short", ping.append(appendDataHeader(nil, 0, false, false)), 1},
	} {
		_, messages, err := new(describer).describe(false, c.datagram)
		if !errors.Is(err, codec.ErrMalformed) || len(messages) != c.messages {
			t.Errorf("%s: %q, %v; want %d messages and ErrMalformed", c.what, messages, err, c.messages)
		}
	}
}

// TestDescribeSplitsBounded: parts of messages that are never completed fill the budget and no more. Then parts of
// other messages are still explained one by one.
func TestDescribeSplitsBounded(t *testing.T) {
	d := new(describer)
	for id := range uint16(maxSplits + 10) {
		c := capsule{
			mode: codec.Reliable, reliable: Seq24(id), split: true, splitID: id, splitCount: 1000, payload: []byte{0x86},
		}
		_, messages, err := d.describe(false, c.append(appendDataHeader(nil, 0, false, false)))
		if err != nil || len(messages) != 1 || !strings.Contains(messages[0], "part 1 of 1000 of split message") {
			t.Fatalf("split %d: %q, %v", id, messages, err)
		}
	}
	if got := d.fromClient.splits.reserved; got > describedSplits || got < describedSplits/2 {
		t.Errorf("%d bytes are reserved, the bound is %d", got, describedSplits)
	}
}

// TestDescribeSentAgain: numbers are distinguished by themselves, not by their place in memory, also across the wrap.
func TestDescribeSentAgain(t *testing.T) {
	var w describedDirection
	for i, step := range []struct {
		number Seq24
		again  bool
	}{
		{seq24Mask, false}, {0, false}, {seq24Mask, true}, {0, true}, {describedRecent, false}, {0, false},
		{5, false}, {5, true},
	} {
		if again := w.seen(step.number); again != step.again {
			t.Errorf("step %d, number %d: again is %v", i, step.number, again)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	for _, name := range []string{
		"connect_handshake", "split_boundary", "reliability_4_reliable_sequenced", "security_wrong_key",
	} {
		for _, d := range loadCapture(f, name+".jsonl").Lines {
			f.Add(d.Datagram, d.Datagram)
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := new(describer)
		for _, datagram := range [][]byte{first, second, first} {
			text, _, err := d.describe(false, datagram)
			if err == nil && text == "" || err != nil && !errors.Is(err, codec.ErrMalformed) {
				t.Fatalf("%x: %q, %v", datagram, text, err)
			}
		}
	})
}
