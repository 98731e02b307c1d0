package shield

import (
	"slices"
	"testing"
)

// TestSocketChecks sends datagrams of both families to a dual-stack socket, and to one socket of each family.
func TestSocketChecks(t *testing.T) {
	var letters FirstBytes
	letters.Add('a', 'z')
	for _, listener := range []struct {
		address string
		sources []string // the first is banned, the second is its neighbor
	}{
		{"127.0.0.1:0", []string{"127.9.0.1", "127.9.1.1"}},
		{"[::1]:0", []string{"::1", ""}},
		{"[::]:0", []string{"127.9.0.1", "127.9.1.1"}},
	} {
		t.Run(listener.address, func(t *testing.T) {
			s := newShield(t, Options{})
			ban(t, s, "127.9.0.0/24", "::/64")
			conn := listen(t, listener.address)
			if err := s.Guard(conn, letters, nil); err != nil {
				t.Fatal(err)
			}
			want := Tally{Banned: 1}
			sendFrom(t, listener.sources[0], conn.LocalAddr(), []byte("banned"))
			var arrives []string
			if neighbor := listener.sources[1]; neighbor != "" {
				want = Tally{Banned: 1, FirstByte: 3, Passed: 1}
				for _, payload := range []string{"Letter", "\x00", "", "letter"} {
					sendFrom(t, neighbor, conn.LocalAddr(), []byte(payload))
				}
				arrives = []string{"letter"}
			}
			if got := received(t, conn, len(arrives)); !slices.Equal(got, arrives) {
				t.Errorf("received %q, want %q", got, arrives)
			}
			if got := tally(t, s).Sockets; got != want {
				t.Errorf("counters are %v, want %v", got, want)
			}
		})
	}
}

// TestSocketUnchecked checks that a listener without known first bytes receives everything, also empty datagrams.
func TestSocketUnchecked(t *testing.T) {
	s := newShield(t, Options{})
	conn := listen(t, "127.0.0.1:0")
	if err := s.Guard(conn, FirstBytes{}, nil); err != nil {
		t.Fatal(err)
	}
	sendFrom(t, "127.0.0.1", conn.LocalAddr(), nil)
	sendFrom(t, "127.0.0.1", conn.LocalAddr(), []byte{0xff})
	if got := received(t, conn, 2); !slices.Equal(got, []string{"", "\xff"}) {
		t.Errorf("received %q", got)
	}
}

// TestBansChange lifts and adds bans while a socket listens, and counts the bans without room.
func TestBansChange(t *testing.T) {
	s := newShield(t, Options{})
	conn := listen(t, "127.0.0.1:0")
	if err := s.Guard(conn, FirstBytes{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		bans []string
		want []string
	}{
		{nil, []string{"127.5.0.1", "127.6.0.1"}},
		{[]string{"127.5.0.1/32"}, []string{"127.6.0.1"}},
		{[]string{"127.5.0.0/16", "127.6.0.1/32"}, nil},
		{[]string{"127.6.0.1/32", "::/0"}, []string{"127.5.0.1"}},
		{[]string{"::ffff:127.5.0.1/128"}, []string{"127.6.0.1"}},
		{[]string{"127.6.0.1/32"}, []string{"127.5.0.1"}},
		{nil, []string{"127.5.0.1", "127.6.0.1"}},
	} {
		ban(t, s, step.bans...)
		for _, from := range []string{"127.5.0.1", "127.6.0.1"} {
			sendFrom(t, from, conn.LocalAddr(), []byte(from))
		}
		if got := received(t, conn, len(step.want)); !slices.Equal(got, step.want) {
			t.Errorf("with bans %v, received from %v, want %v", step.bans, got, step.want)
		}
	}
}

// TestUnguard checks that a socket receives everything again.
func TestUnguard(t *testing.T) {
	s := newShield(t, Options{})
	ban(t, s, "127.0.0.0/8")
	conn := listen(t, "127.0.0.1:0")
	if err := s.Guard(conn, FirstBytes{}, nil); err != nil {
		t.Fatal(err)
	}
	sendFrom(t, "127.0.0.1", conn.LocalAddr(), []byte("one"))
	if err := Unguard(conn); err != nil {
		t.Fatal(err)
	}
	sendFrom(t, "127.0.0.1", conn.LocalAddr(), []byte("two"))
	if got := received(t, conn, 1); !slices.Equal(got, []string{"two"}) {
		t.Errorf("received %q, want the second datagram", got)
	}
}
