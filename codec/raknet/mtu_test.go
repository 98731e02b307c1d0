package raknet

import (
	"encoding/binary"
	"slices"
	"testing"

	"tidegate/codec"
)

// TestLateGrant: a server grants the client's first request, and the path loses that and all else to the client, until
// the client has tried its smallest size. The server goes on with the size of the first request, though a stock one
// tells that of the last. So its parts are large for the client, which takes them nevertheless, also after a restart.
func TestLateGrant(t *testing.T) {
	for _, echoes := range []bool{false, true} {
		lateGrant(t, echoes)
	}
}

func lateGrant(t *testing.T, echoes bool) {
	l := newLink(t, Options{})
	size, granted := 0, false
	l.drop = func(toServer bool, b []byte) bool {
		if toServer && len(b) > 0 && b[0] == idOpenConnectionRequest1 {
			size = len(b)
		}
		if echoes && !toServer && b[0] == idOpenConnectionReply2 {
			binary.BigEndian.PutUint16(b[32:], uint16(probes[len(probes)-1]))
		}
		granted = granted || !toServer && l.server != nil
		return !toServer && granted && size > probes[len(probes)-1]
	}
	for range 200 {
		if l.wait(50 * ms); size <= probes[len(probes)-1] {
			break
		}
	}
	l.wait(1000 * ms)
	connect(t, l)
	if l.server.sender.MTU <= l.client.sender.MTU {
		t.Fatalf("MTU %d of the server, %d of the client, want a larger one", l.server.sender.MTU, l.client.sender.MTU)
	}
	l.sendOrdered(l.server, 5000, 0)
	l.wait(100 * ms)
	again, err := l.p.Restore(l.now, nil, l.client.Save(l.now, nil))
	if err != nil {
		t.Fatal(err)
	}
	l.client = again.(*Conn)
	l.sendOrdered(l.server, 6000, 0)
	l.wait(1000 * ms)
	var lengths []int
	for _, e := range l.toClient {
		if e.Kind == codec.Received {
			lengths = append(lengths, len(e.Payload))
		}
	}
	if !slices.Equal(lengths, []int{5000, 6000}) {
		t.Errorf("the client (an echo: %v) got messages of %d bytes, want 5000 and 6000", echoes, lengths)
	}
}
