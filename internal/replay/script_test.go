package replay

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/decode"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// recorder lets a client and a server of one protocol exchange messages without sockets, and keeps each datagram.
type recorder struct {
	t         *testing.T
	now       time.Time
	began     time.Time
	protocol  codec.Protocol
	client    codec.Conn
	server    codec.Conn
	connected [2]bool // client, server
	all       []decode.Datagram
}

// record exchanges messages and returns the datagrams. Each datagram of a message is recorded twice, as in a network
// that duplicates.
func record(t *testing.T, protocol codec.Protocol, said, heard []codec.Message) []decode.Datagram {
	t.Helper()
	began := time.Unix(1e9, 0)
	r := &recorder{t: t, now: began, began: began, protocol: protocol}
	r.client = protocol.Dial(r.now, netip.MustParseAddrPort("10.0.0.1:7777"), codec.Hello{Identity: 7})
	for range 600 {
		r.step()
		if r.connected == [2]bool{true, true} {
			said, heard = r.say(r.client, said), r.say(r.server, heard)
		}
		r.now = r.now.Add(10 * time.Millisecond)
	}
	if len(said)+len(heard) > 0 {
		t.Fatalf("connected %v, %d and %d messages not sent", r.connected, len(said), len(heard))
	}
	r.client.Close(r.now, codec.Goodbye{Reason: codec.Closed})
	r.step()
	return r.all
}

// say sends the next message.
func (r *recorder) say(c codec.Conn, all []codec.Message) []codec.Message {
	if len(all) == 0 {
		return nil
	}
	if err := c.Send(r.now, all[0]); err != nil {
		r.t.Fatal(err)
	}
	return all[1:]
}

// step lets both sides do their due work.
func (r *recorder) step() {
	for _, server := range []bool{false, true} {
		c, other := r.client, r.server
		if server {
			c, other = r.server, r.client
		}
		if c == nil {
			continue
		}
		c.Advance(r.now)
		r.poll(c, server)
		for {
			b, ok := c.Transmit(r.now, nil)
			if !ok {
				break
			}
			r.deliver(server, b, other)
			if !server {
				other = r.server
			}
		}
	}
}

func (r *recorder) deliver(fromServer bool, b []byte, to codec.Conn) {
	d := decode.Datagram{At: r.now.Sub(r.began), FromServer: fromServer, Bytes: slices.Clone(b)}
	r.all = append(r.all, d)
	if r.connected == [2]bool{true, true} {
		r.all = append(r.all, d)
	}
	if to != nil {
		_ = to.Receive(r.now, b)
		r.poll(to, !fromServer)
		return
	}
	conn, reply, err := r.protocol.Accept(r.now, netip.MustParseAddrPort("10.0.0.2:5000"), b, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if conn != nil {
		r.server = conn
		r.poll(conn, true)
	}
	if len(reply) > 0 {
		r.deliver(true, reply, r.client)
	}
}

func (r *recorder) poll(c codec.Conn, server bool) {
	side := 0
	if server {
		side = 1
	}
	for e, ok := c.Poll(); ok; e, ok = c.Poll() {
		switch e.Kind {
		case codec.Asked:
			c.Admit(r.now, 1)
		case codec.Connected:
			r.connected[side] = true
		case codec.Disconnected:
			r.connected[side] = false
		}
	}
}

// messagesOf returns messages of all modes and sizes that a protocol has.
func messagesOf(spec *codec.Spec, tag byte) (all []codec.Message) {
	for i := range 40 {
		for mode := codec.Mode(0); mode <= codec.Notify; mode++ {
			if !spec.Modes.Has(mode) {
				continue
			}
			payload := binary.BigEndian.AppendUint16([]byte{0x90, tag, byte(mode)}, uint16(i))
			if i%13 == 0 && mode.IsReliable() && (spec.Name == "enet" || spec.IDs == codec.IDFirstByte) {
				payload = append(payload, make([]byte, 5000)...) // in parts
			}
			m := codec.Message{Payload: payload, Mode: mode}
			if spec.IDs == codec.IDBeside && mode != codec.Notify {
				m.ID, m.HasID = uint16(i+1), true
			}
			if spec.Channels > 0 {
				m.Channel = uint8(i % 3)
			}
			all = append(all, m)
		}
	}
	return all
}

func textsOf(spec *codec.Spec, all []line) []string {
	var messages []codec.Message
	for i := range all {
		messages = append(messages, all[i].Message)
	}
	return texts(spec, messages)
}

// texts returns what must be heard of messages. Messages that may arrive as one have one text.
func texts(spec *codec.Spec, all []codec.Message) (texts []string) {
	if spec.Joins {
		whole := ""
		for i := range all {
			whole += string(all[i].Payload)
		}
		return []string{whole}
	}
	for i := range all {
		m := all[i]
		if m.Mode == codec.Unreliable || m.Mode == codec.Reliable { // RakNet's have no channel
			m.Channel = 0
		}
		texts = append(texts, fmt.Sprintf("%v %d %v %d %x", m.Mode, m.ID, m.HasID, m.Channel, m.Payload))
	}
	slices.Sort(texts)
	return texts
}

// twice returns the messages that a third party hears if each datagram is there twice. RakNet and Riptide have no
// number that would show that an unreliable one repeats.
func twice(spec *codec.Spec, all []codec.Message) (heard []codec.Message) {
	for _, m := range all {
		heard = append(heard, m)
		if spec.Name != "enet" && spec.Name != "rudp" && !m.Mode.IsReliable() {
			heard = append(heard, m)
		}
	}
	return heard
}

// TestOverheardGames reads, as a third party, the messages that a client and a server of each protocol exchange. Each
// must be read once, although its datagram is there twice.
func TestOverheardGames(t *testing.T) {
	for _, d := range protocols.All {
		t.Run(d.Name, func(t *testing.T) {
			protocol := d.NewCalm(registry.Use{})
			spec := protocol.Spec()
			if spec.Closed {
				t.Skip("TestRTypeGames plays its games")
			}
			said, heard := messagesOf(spec, 's'), messagesOf(spec, 'h')
			c := &decode.Conversation{Client: "10.0.0.2:5000", Protocol: d, Datagrams: record(t, protocol, said, heard)}
			s, err := newScript(c, d.Name)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(textsOf(spec, s.said), texts(spec, twice(spec, said))) {
				t.Errorf("the client said %d messages, %d are heard", len(said), len(s.said))
			}
			if !slices.Equal(textsOf(spec, s.heard), texts(spec, twice(spec, heard))) {
				t.Errorf("the server said %d messages, %d are heard", len(heard), len(s.heard))
			}
			if !s.begins || s.end != byClient && d.Name != "rudp" {
				t.Errorf("begins %t, end %q", s.begins, s.end)
			}
		})
	}
}

// FuzzScript reads any datagrams as each protocol. The first byte of each part is its length.
func FuzzScript(f *testing.F) {
	f.Add([]byte("\x05start\x02\x00\x01\x01\x04\x03\x00\x00A"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var all []decode.Datagram
		for len(b) > 0 {
			n := min(int(b[0]), len(b)-1)
			all = append(all, decode.Datagram{FromServer: len(all)%2 == 1, Bytes: b[1 : n+1]})
			b = b[n+1:]
		}
		for _, d := range protocols.All {
			s, err := newScript(&decode.Conversation{Protocol: d, Datagrams: all}, d.Name)
			if err == nil && s.faults > len(all) {
				t.Errorf("%s: %d faults in %d datagrams", d.Name, s.faults, len(all))
			}
		}
	})
}
