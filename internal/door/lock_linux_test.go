package door

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// TestLock connects to a locked listener by its Lock, and by itself.
func TestLock(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	at := server.Addr().(*net.TCPAddr).AddrPort()
	l, err := NewLock(at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("tide")); err != nil {
			t.Fatal(err)
		}
		if n, err := accepted.Read(make([]byte, 8)); n != 4 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	// The kernel drops the segments of others, so this waits for an answer in vain.
	if c, err := net.DialTimeout("tcp", at.String(), 50*time.Millisecond); !os.IsTimeout(err) {
		t.Errorf("a stranger: connection %v, %v", c, err)
	}
	if _, err := NewLock(netip.MustParseAddrPort("127.0.0.1:1")); err == nil {
		t.Error("a port without a listener was locked")
	}
}
