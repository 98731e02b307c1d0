package raknet

import (
	"net/netip"
	"testing"

	"tidegate/codec"
)

// peers holds a capture's facts about its two peers.
type peers struct {
	client, server netip.AddrPort
	clientGUID     uint64
	serverGUID     uint64
	version        uint8 // the client's version
	password       []byte
}

// meet reads the peers' facts from the handshake, and makes up the missing ones.
func meet(t *testing.T, c *capture, conn int) peers {
	t.Helper()
	p := peers{
		client: replayClient, server: replayServerAddr, clientGUID: 7, serverGUID: 8, version: 6,
	}
	if d, ok := c.first(conn, "client", idOpenConnectionRequest1); ok {
		p.version = d.Datagram[17]
	}
	if d, ok := c.first(conn, "client", idOpenConnectionRequest2); ok {
		var m openConnectionRequest2
		if err := m.parse(d.Datagram, hasCookie(c, conn)); err != nil {
			t.Fatal(err)
		}
		p.server, p.clientGUID = m.server.AddrPort, m.guid
	}
	if d, ok := c.first(conn, "server", idOpenConnectionReply2); ok {
		var m openConnectionReply2
		if err := m.parse(d.Datagram); err != nil {
			t.Fatal(err)
		}
		p.client = m.client.AddrPort
	}
	p.serverGUID = serverGUID(c)
	if m, ok := capturedRequest(c, conn); ok {
		p.password = m.password
	}
	return p
}

func serverGUID(c *capture) uint64 {
	for _, d := range c.Lines {
		if d.From != "server" {
			continue
		}
		if pong, err := ParsePong(d.Datagram); err == nil {
			return pong.GUID
		}
		var old incompatible
		if old.parse(d.Datagram) == nil {
			return old.guid
		}
		if _, ok := offlineID(d.Datagram); ok { // all others have it in the same place
			m := refusal{}
			_ = m.parse(append([]byte{idAlreadyConnected}, d.Datagram[1:]...))
			return m.guid
		}
	}
	return 8
}

// hasCookie reports whether the real server of a capture demanded a cookie.
func hasCookie(c *capture, conn int) bool {
	d, ok := c.first(conn, "server", idOpenConnectionReply1)
	return ok && d.Datagram[25] != 0
}

// capturedRequest returns the first CONNECTION_REQUEST of a connection, even if it was lost.
func capturedRequest(c *capture, conn int) (m connectionRequest, ok bool) {
	b := firstOnline(wiresOf(c, conn, "client"), idConnectionRequest)
	return m, b != nil && m.parse(b) == nil
}

// firstOnline returns the first message of an identifier in a list of datagrams, or nil.
func firstOnline(wires [][]byte, id byte) []byte {
	for _, wire := range wires {
		var d datagram
		if d.parse(wire) != nil || d.kind != dataDatagram {
			continue
		}
		for b := d.body; !isPadding(b); {
			var c capsule
			var err error
			if b, err = c.parse(b); err != nil {
				break
			}
			if !c.split && c.payload[0] == id {
				return c.payload
			}
		}
	}
	return nil
}

// refusing lists the connections that the real server refused, with the reasons.
var refusing = map[string]codec.Reason{
	"banned/1":                          codec.Banned,
	"cpp_client_gork_server_v6/1":       codec.Incompatible,
	"gork_client_cpp_server_v6/1":       codec.Incompatible,
	"incompatible_version_new_server/1": codec.Incompatible,
	"incompatible_version_old_server/1": codec.Incompatible,
	"ip_recently_connected/1":           codec.TooSoon,
	"security_client_without_libcat/1":  codec.Incompatible,
	"security_wrong_key/1":              codec.Incompatible,
	"server_full/2":                     codec.ServerFull,
	"slikenet_server_full/2":            codec.ServerFull,
	"wrong_password/1":                  codec.InvalidPassword,
}

// wiresOf returns the datagrams of a side of a real connection.
func wiresOf(c *capture, conn int, from string) (list [][]byte) {
	for _, d := range c.Lines {
		if d.Conn == conn && d.From == from {
			list = append(list, d.Datagram)
		}
	}
	return list
}

// offlineOnly returns the offline messages among the datagrams.
func offlineOnly(wires [][]byte) (list [][]byte) {
	for _, wire := range wires {
		if _, ok := offlineID(wire); ok {
			list = append(list, wire)
		}
	}
	return list
}
