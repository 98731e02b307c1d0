package rtype

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// lobbyParts are the example's components as servers of the last game name them.
var lobbyParts = []string{"05 0000 506f736974696f6e", "05 0100 56656c6f63697479", "05 0200 4865616c7468"}

// TestLobby: a client of the last game ignores components, starts, and then receives the world without them.
func TestLobby(t *testing.T) {
	s := admitted(t, Options{Dialect: GameLast}, "00")
	send(t, s, start, "f00304"+names8, "00 00000007", "02 00000007 0000", "03 00000007 0000 aa", "03 00000007 0001 bb",
		"0a")
	wantSent(t, s, start, append(slices.Clone(lobbyParts), "060003")...)
	now := start.Add(lobbyTick)
	s.Advance(now)
	wantSent(t, s, now, append(slices.Clone(lobbyParts), "060003")...)
	receive(t, s, now, "01 0100")
	wantSent(t, s, now, "060002")
	receive(t, s, now, "02")
	s.Advance(now)
	wantSent(t, s, now, "00 07000000", "02 07000000 0000", "03 07000000 0000 aa")
	send(t, s, now, "00 00000100", "03 00000100 0001 bb", "03 00000100 0002 cc", "0a")
	wantSent(t, s, now, "00 00010000", "03 00010000 0200 cc", "0a")
	receive(t, s, now, "03 00010000 0200 dd")
	wantReceived(t, s, "03 00000100 0002 dd")
	for range lateRounds {
		now = now.Add(lobbyTick)
		s.Advance(now)
		wantSent(t, s, now, lobbyParts[0], lobbyParts[2]) // not the one that the client ignores
	}
	s.Advance(now.Add(lobbyTick))
	if next := s.NextTimeout(); !next.Equal(start.Add(lobbyTick + defaultIdleTimeout)) {
		t.Errorf("next timeout %v", next.Sub(start))
	}
}

// TestLobbyIsOvertaken: servers of the last game also send new entities to clients in the lobby. None is forgotten.
func TestLobbyIsOvertaken(t *testing.T) {
	s := admitted(t, Options{Dialect: GameLast}, "00")
	send(t, s, start, "00 00000007", announce8)
	codectest.Transmit(s, start)
	receive(t, s, start, "02")
	s.Advance(start)
	wantSent(t, s, start, "00 07000000")
}

// TestSilentLobby: a silent client receives the names a few times, and is given up soon.
func TestSilentLobby(t *testing.T) {
	s := admitted(t, Options{Dialect: GameLast}, "00")
	send(t, s, start, announce8)
	counts := make(map[int]int)
	for s.state != closed {
		for _, d := range codectest.Transmit(s, start) {
			counts[int(d[0])]++
		}
		s.Advance(s.NextTimeout())
	}
	if counts[nameOpcode] != silentRounds*len(lobbyParts) || counts[countOpcode] != int(lobbyTimeout/lobbyTick) {
		t.Errorf("sent %v", counts)
	}
	wantSent(t, s, start, goodbyeHex)
}

// TestStrangeLobby: forged messages for a client of the last game change nothing.
func TestStrangeLobby(t *testing.T) {
	s := admitted(t, Options{Dialect: GameLast}, "00")
	for _, c := range []struct {
		datagram string
		want     error
	}{
		{"02", codec.ErrUnexpected}, {"01 0000", errComponent}, {"01 00", errOpcode}, {"04", errOpcode},
		{"00", codec.ErrDuplicate},
	} {
		if err := s.Receive(start, codectest.Unhex(t, c.datagram)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.datagram, err, c.want)
		}
	}
	send(t, s, start, announce8)
	receive(t, s, start, "02")
	s.Advance(start)
	codectest.Transmit(s, start)
	for _, d := range []string{"00", "02"} {
		if err := s.Receive(start, codectest.Unhex(t, d)); err != codec.ErrDuplicate {
			t.Errorf("%s once more: %v", d, err)
		}
	}
	wantSent(t, s, start)
}

// TestClientLobby: a client asks, gathers the names in any order, starts, and starts again while the server still
// sends the count.
func TestClientLobby(t *testing.T) {
	for _, dialect := range []Dialect{GameLast, Auto} {
		c := dialed(t, Options{Dialect: dialect})
		receive(t, c, start, lobbyParts[2], lobbyParts[0])
		codectest.Drain(c)
		receive(t, c, start, "060003")
		wantReceived(t, c)
		wantSent(t, c, start)
		receive(t, c, start, "05 34f2 41")
		wantSent(t, c, start, "01 34f2")
		receive(t, c, start, lobbyParts[1])
		wantReceived(t, c)
		wantSent(t, c, start, "02")
		if err := c.Receive(start, codectest.Unhex(t, "060003")); err != codec.ErrDuplicate {
			t.Errorf("count: %v", err)
		}
		wantSent(t, c, start)
		now := start.Add(c.options.HelloInterval)
		_ = c.Receive(now, codectest.Unhex(t, "060003"))
		wantSent(t, c, now, "02")
		receive(t, c, now, "00 07010000")
		wantReceived(t, c, "f00304"+names8, "00 00000107")
		send(t, c, now, "03 00000107 0002 aa")
		wantSent(t, c, now, "03 07010000 0200 aa")
	}
}

// TestClientLobbyAsksAgain: a client asks for a missing name.
func TestClientLobbyAsksAgain(t *testing.T) {
	c := dialed(t, Options{Dialect: GameLast})
	receive(t, c, start, lobbyParts[0], "060003")
	now := start.Add(time.Second)
	c.Advance(now)
	wantSent(t, c, now, "00")
	receive(t, c, now, lobbyParts[1], lobbyParts[2])
	wantSent(t, c, now, "02")
}

// TestServerTellsTheLastGame: in the automatic dialect the server's answer decides the meaning of a client's 00.
func TestServerTellsTheLastGame(t *testing.T) {
	s := admitted(t, Options{}, "00")
	wantReceived(t, s)
	send(t, s, start, "f00304"+names8)
	wantReceived(t, s)
	wantSent(t, s, start, append(slices.Clone(lobbyParts), "060003")...)
	s = admitted(t, Options{}, "00")
	send(t, s, start, "f00102"+names8)
	wantReceived(t, s, "00")
	s = admitted(t, Options{}, "00")
	receive(t, s, start, "01")
	wantReceived(t, s, "00", "01")
}

// TestProof: a client proves its address with a secret that only it received. A guess proves nothing.
func TestProof(t *testing.T) {
	seeded := Options{Dialect: Game32, Seed: [32]byte{1}}
	s := admitted(t, seeded, startHex)
	send(t, s, start, announce8, "00 00000007")
	sent := codectest.Transmit(s, start)
	masked := sent[len(sent)-1]
	if be.Uint32(masked[1:]) == 7 {
		t.Fatal("the entity is not masked")
	}
	if err := s.Receive(start, codectest.Unhex(t, "03 00000007 0001")); err != errEntity || s.Proved() {
		t.Errorf("guess: %v, proved %v", err, s.Proved())
	}
	receive(t, s, start, "03"+hex.EncodeToString(masked[1:5])+"0001 aa")
	wantReceived(t, s, "03 00000007 0001 aa")
	if !s.Proved() {
		t.Error("not proved by the entity")
	}
	now := start.Add(restartQuiet - 1)
	if err := s.Receive(now, []byte("start")); err != codec.ErrDuplicate {
		t.Errorf("a hello in the name of a client that plays: %v", err)
	}
	seeded.Dialect = GameLast
	s = admitted(t, seeded, "00")
	send(t, s, start, announce8)
	var secrets []string
	for _, d := range codectest.Transmit(s, start) {
		if strings.Contains(string(d), "Tidegate") {
			secrets = append(secrets, hex.EncodeToString(d[1:3]))
		}
	}
	if len(secrets) != 4 || secrets[0] != secrets[2] || secrets[1] != secrets[3] { // at first, and with the names
		t.Fatalf("secrets %q", secrets)
	}
	receive(t, s, start, "01"+secrets[0], "01"+secrets[0])
	if err := s.Receive(start, codectest.Unhex(t, "01 ffff")); err == nil || s.Proved() {
		t.Errorf("proved by one of two, and a guess: %v", err)
	}
	receive(t, s, start, "01"+secrets[1])
	if !s.Proved() {
		t.Error("not proved by the components")
	}
	if other := (&Options{Seed: [32]byte{2}}).newSecret(start, address); other == seededSecret() {
		t.Error("the secret does not depend on the seed")
	}
}

func seededSecret() secret { return (&Options{Seed: [32]byte{1}}).newSecret(start, address) }
