package raknet

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestSecurityMessages(t *testing.T) {
	client := written("127.0.0.1:51255", unknownFamily)
	for _, g := range []golden{
		{name: "server's key missing", hex: "0a00", want: &requiresPublicKey{serverKeyMissing}},
		{name: "identity missing", hex: "0a01", want: &requiresPublicKey{clientIdentityMissing}},
		{name: "identity invalid", hex: "0a02", want: &requiresPublicKey{clientIdentityInvalid}},
		{name: "security required", hex: "0b" + "0480fffffec837" + "000660c48509a6ae",
			want: &requiresSecurity{client: client, guid: 0x660c48509a6ae}},
		{name: "connection lost", hex: "16" + "000660c48509a6ae" + "0480fffffec837",
			want: &connectionLost{client: client, guid: 0x660c48509a6ae}},
	} {
		t.Run(g.name, g.run)
	}
	for _, wire := range []string{"0a03", "0a0000"} {
		if err := new(requiresPublicKey).parse(codectest.Unhex(t, wire)); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("parse of %s: %v, want ErrMalformed", wire, err)
		}
	}
}

// TestServerThatDemandsEncryption offers its key again and again, and answers no request without a challenge.
func TestServerThatDemandsEncryption(t *testing.T) {
	l := newLink(t, Options{})
	offer := openConnectionReply1{guid: 1, hasCookie: true, cookie: 2, encrypts: true, mtu: 1492}
	var said []byte
	for until := l.now.Add(3 * time.Second); l.now.Before(until); l.now = l.now.Add(10 * ms) {
		l.client.Advance(l.now)
		for wire, ok := l.client.Transmit(l.now, nil); ok; wire, ok = l.client.Transmit(l.now, nil) {
			if said = wire; wire[0] == idOpenConnectionRequest1 {
				_ = l.client.Receive(l.now, offer.append(nil))
			}
		}
		l.poll()
	}
	if got := ending(t, l.toClient); got != codec.Incompatible {
		t.Errorf("ended as %v, want incompatible", got)
	}
	if string(said) != "\x0a\x00" {
		t.Errorf("sent %x at last, want 0a00", said)
	}
}

// TestClientThatDemandsEncryption sends a challenge. The answer is a grant without encryption, and no connection
// follows.
func TestClientThatDemandsEncryption(t *testing.T) {
	p := New(Options{})
	request := openConnectionRequest2{
		hasCookie: true, cookie: p.cookies.give(linkStart, linkClient, origin{}), challenged: true,
		server: address{AddrPort: linkServer}, mtu: 1492,
		guid: 77,
	}
	wire := request.append(nil)
	conn, reply, err := p.Accept(linkStart, linkClient, wire, nil)
	var grant openConnectionReply2
	if conn != nil || !errors.Is(err, codec.ErrRefused) || grant.parse(reply) != nil || grant.encrypts {
		t.Errorf("conn %v, %v, answered by %x, want a grant without encryption only", conn, err, reply)
	}
	l := newConnected(t, Options{})
	request.cookie = l.p.cookies.give(l.now, linkClient, origin{})
	if err := l.server.Receive(l.now, request.append(nil)); err != nil {
		t.Error(err)
	}
	again, _ := l.server.Transmit(l.now, nil)
	if string(again) != string(reply[:17])+string(again[17:]) || len(again) != len(reply) {
		t.Errorf("answered by %x within a connection, want a grant like %x", again, reply)
	}
}

// TestEncryptedConnectionRequest comes from a client that takes the connection for encrypted.
func TestEncryptedConnectionRequest(t *testing.T) {
	l := newLink(t, Options{})
	l.carry(l.client, true)
	l.carry(l.client, true) // its second request
	l.carry(l.server, false)
	request := connectionRequest{guid: 77, encrypts: true}
	c := capsule{mode: codec.Reliable, payload: request.append(nil)}
	_ = l.server.Receive(l.now, c.append(appendDataHeader(nil, 0, false, false)))
	l.client.phase = requesting
	l.exchange()
	if got := ending(t, l.toClient); got != codec.Incompatible {
		t.Errorf("the client ended as %v, want incompatible", got)
	}
	l.wait(5 * time.Second)
	if got := ending(t, l.toServer); got != codec.Incompatible || len(l.toServer) != 1 {
		t.Errorf("the server saw %v for %v, want only disconnected for incompatible", codectest.Kinds(l.toServer), got)
	}
}

// TestConnectionLostIsOurs: a server that reports us as lost has forgotten us. Its reports about other clients do not
// concern us.
func TestConnectionLostIsOurs(t *testing.T) {
	for _, guid := range []uint64{78, 77} {
		l := newConnected(t, Options{})
		m := connectionLost{guid: guid, client: address{AddrPort: linkClient}}
		l.server.sender.enqueueControl(l.now.Sub(l.server.start), codec.Reliable, m.append(nil), 0)
		l.exchange()
		if over := has(l.toClient, codec.Disconnected); over != (guid == 77) {
			t.Errorf("loss of %d reported to client 77: over = %v", guid, over)
		} else if over && ending(t, l.toClient) != codec.TimedOut {
			t.Errorf("ended as %v, want timed-out", ending(t, l.toClient))
		}
	}
}

func (m *requiresPublicKey) parse(b []byte) error {
	if err := checkOnline(b, idRequiresPublicKey, 2); err != nil {
		return err
	}
	if len(b) != 2 || b[1] > clientIdentityInvalid {
		return errOnlineShort
	}
	m.code = b[1]
	return nil
}

func (m *requiresSecurity) parse(b []byte) error {
	err := checkOnline(b, idRequiresSecurity, 1)
	if err != nil {
		return err
	}
	*m = requiresSecurity{}
	var rest []byte
	if m.client, rest, err = parseAddress(b[1:]); err != nil {
		return err
	}
	if len(rest) != 8 {
		return errOnlineShort
	}
	m.guid = binary.BigEndian.Uint64(rest)
	return nil
}

func (m *connectionLost) append(b []byte) []byte {
	return appendAddress(appendGUID(append(b, idConnectionLost), m.guid), m.client)
}
