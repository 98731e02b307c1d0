package netlab

import (
	"net"
	"testing"
)

// TestCable sends a datagram between two namespaces that only a cable joins.
func TestCable(t *testing.T) {
	near, far := New(t, "near"), New(t, "far")
	Cable(near, "eth0", far, "eth0")
	near.Address("eth0", "10.9.0.1/24")
	far.Address("eth0", "10.9.0.2/24")

	var receiver net.PacketConn
	var sender net.Conn
	var err error
	far.Do(func() { receiver, err = net.ListenPacket("udp", "10.9.0.2:7777") })
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	near.Do(func() { sender, err = net.Dial("udp", "10.9.0.2:7777") })
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	if _, err := sender.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	n, from, err := receiver.ReadFrom(b)
	if err != nil || string(b[:n]) != "hello" || from.String() != sender.LocalAddr().String() {
		t.Fatalf("%q from %v, %v", b[:n], from, err)
	}
}
