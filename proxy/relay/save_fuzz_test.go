package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// FuzzImport imports altered records of sessions. The Relay's books must be right afterwards, and nothing may be left
// after a drain.
func FuzzImport(f *testing.F) {
	pairs := fuzzPairs()
	var shared [][]byte
	for n, p := range pairs {
		w := newFuzzWorld(f, p)
		w.exchange(30)
		one, all := exportAll(w.relay, w.now)
		shared = append(shared, one)
		for _, session := range all {
			f.Add(byte(n), session.bytes, byte(len(session.sockets)))
		}
		w.end()
	}
	f.Fuzz(func(t *testing.T, pair byte, record []byte, sockets byte) {
		n := int(pair) % len(pairs)
		w := newFuzzWorld(t, pairs[n])
		w.altered = true
		i := BeginImport(w.relay, w.now)
		if err := i.shared(shared[n], noSocket); err != nil {
			t.Fatal(err)
		}
		var given []netio.Socket
		for range sockets % 4 {
			s, _ := w.Dial(serverAddr, netio.SocketOptions{})
			given = append(given, s)
		}
		_ = i.session(record, given)
		i.end()
		w.flush()
		w.pass(10 * time.Second)
		w.exchange(3)
		w.end()
	})
}

// FuzzImportRelay imports altered records of a Relay.
func FuzzImportRelay(f *testing.F) {
	pairs := fuzzPairs()
	for n, p := range pairs {
		w := newFuzzWorld(f, p)
		w.exchange(30)
		one, _ := exportAll(w.relay, w.now)
		f.Add(byte(n), one)
	}
	f.Fuzz(func(t *testing.T, pair byte, record []byte) {
		w := newFuzzWorld(t, pairs[int(pair)%len(pairs)])
		i := BeginImport(w.relay, w.now)
		_ = i.shared(record, noSocket)
		i.end()
		w.relay.Advance(w.now)
		w.relay.Flush(w.now)
	})
}

func noSocket(netip.AddrPort) (netio.Socket, error) { return nil, netio.ErrClosed }
