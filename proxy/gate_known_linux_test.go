package proxy

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"tidegate/internal/kernel/shield"
	"tidegate/internal/testkit/await"
	"tidegate/proxy/relay"
)

// forge sends a datagram with a forged source address. It skips the test if the process lacks the right to do so.
func (b *besieged) forge(from netip.AddrPort, text string) {
	b.t.Helper()
	conn, err := net.ListenPacket("ip4:255", "127.0.0.1")
	if err != nil {
		b.t.Skip(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := ipv4.NewRawConn(conn)
	if err != nil {
		b.t.Skip(err)
	}
	udp := binary.BigEndian.AppendUint16(nil, from.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(b.at.Port))
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(append(udp, 0, 0), text...)
	header := &ipv4.Header{Version: 4, Len: 20, TotalLen: 20 + len(udp), TTL: 64, Protocol: 17,
		Src: from.Addr().AsSlice(), Dst: b.at.IP}
	if err := raw.WriteTo(header, udp, nil); err != nil {
		b.t.Fatal(err)
	}
}

// hears reports whether a player receives text without a question.
func (b *besieged) hears(player *net.UDPConn, text string) bool {
	b.t.Helper()
	_ = player.SetReadDeadline(time.Now().Add(10 * time.Second))
	reply := make([]byte, 100)
	n, err := player.Read(reply)
	return err == nil && string(reply[:n]) == text
}

// TestWhoForgesAPlayerPassesForIt sends datagrams in a flood. One with a player's own address and port uses the
// player's room and reaches its session. One from another port is dropped like a stranger's.
func TestWhoForgesAPlayerPassesForIt(t *testing.T) {
	b := besiege(t, 1, newGates(t, 1))
	player := b.player()
	own := player.LocalAddr().(*net.UDPAddr).AddrPort()
	see := b.blind()
	stranger := netip.AddrPortFrom(own.Addr(), own.Port()^1)
	await.Until(t, "dropped from another port", func() bool { // the gate may probe a loop with a few strangers
		b.flood()
		before := b.dropped()
		b.forge(stranger, "from another port")
		return b.dropped() == before+1
	})
	before := b.dropped()
	b.forge(own, "forged")
	if got := b.dropped() - before; got != 0 {
		t.Errorf("%d dropped of one in the player's name", got)
	}
	see()
	b.forge(own, "forged")
	if !b.hears(player, "forged") {
		t.Error("what was forged in the player's name has not reached its session")
	}
}

// dropped returns the number of strangers' datagrams that the kernel has dropped.
func (b *besieged) dropped() uint64 {
	b.t.Helper()
	c, err := b.options.Kernel.Shield.Counters()
	if err != nil {
		b.t.Fatal(err)
	}
	return c.Sockets[shield.StrangerLimit]
}

// TestWhoIsKickedIsAStranger asserts that a kicked player becomes a stranger for the kernel too.
func TestWhoIsKickedIsAStranger(t *testing.T) {
	b := besiege(t, 1, newGates(t, 1))
	b.player()
	all, err := b.List(t.Context(), &relay.ListSessions{Limit: 10})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	if err := b.Ask(t.Context(), &relay.KickSession{ID: all[0].ID}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "rid of who was kicked", func() bool { return b.Snapshot().Kernel.Known == 0 })
}

// TestPlayersPassAFloodAfterAHandOver hands over to a new process while strangers fill the buffer. The player is no
// stranger to the new process.
func TestPlayersPassAFloodAfterAHandOver(t *testing.T) {
	old := besiege(t, 1, newGates(t, 1))
	player := old.player()
	files, err := old.Listening()
	if err != nil {
		t.Fatal(err)
	}
	server, err := Listen(old.settings, Options{
		Loops: 1, Log: zerolog.Nop(), Kernel: newGates(t, 1), Inherited: files, Successor: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := old.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	states := frozen.Export()
	for i, fd := range states[0].Descriptors {
		if states[0].Descriptors[i], err = unix.Dup(fd); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := server.Import(states, time.Now()); err != nil || all.Sessions != 1 {
		frozen.Thaw()
		t.Fatalf("%+v, %v", all, err)
	}
	frozen.Leave()
	next := besiegeBy(t, server)
	next.TakeKernel()
	if n := next.heardInAFlood(player, 100); n != 100 {
		t.Errorf("%d of 100 datagrams of a player of the old process came through", n)
	}
	if !next.says(next.dial(), "hello") {
		t.Error("a newcomer does not get in after the flood")
	}
}
