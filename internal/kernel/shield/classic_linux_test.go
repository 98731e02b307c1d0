package shield

import (
	"slices"
	"testing"
)

// TestGuardClassic sends every first byte, and empty datagrams, to sets with gaps in several places.
func TestGuardPlainly(t *testing.T) {
	for _, ranges := range [][][2]byte{
		{{1, 2}, {5, 5}, {7, 7}, {0x80, 0xff}}, {{0, 0}}, {{255, 255}}, {{0, 255}}, {{0x10, 0x7f}},
	} {
		var possible FirstBytes
		for _, r := range ranges {
			possible.Add(r[0], r[1])
		}
		conn := listen(t, "127.0.0.1:0")
		if _, err := GuardClassic(conn, possible, nil); err != nil {
			t.Fatal(err)
		}
		var want []string
		sendFrom(t, "127.0.0.1", conn.LocalAddr(), nil)
		for b := range 256 {
			sendFrom(t, "127.0.0.1", conn.LocalAddr(), []byte{byte(b), 'x'})
			if possible.Has(byte(b)) {
				want = append(want, string([]byte{byte(b), 'x'}))
			}
		}
		if got := received(t, conn, len(want)); !slices.Equal(got, want) {
			t.Errorf("%v: received %q, want %q", ranges, got, want)
		}
		if _, err := GuardClassic(conn, FirstBytes{}, nil); err != nil {
			t.Fatal(err)
		}
		sendFrom(t, "127.0.0.1", conn.LocalAddr(), nil)
		if got := received(t, conn, 1); !slices.Equal(got, []string{""}) {
			t.Errorf("received %q without a filter, want an empty datagram", got)
		}
	}
}
