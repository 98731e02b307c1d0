//go:build interop

package interop_test

import (
	"fmt"
	"syscall"
	"testing"
)

// severalText is a configuration of two games at servers of one protocol. The first has tables of its own, the second
// has the process's values.
func severalText(protocol, servers, table, own, kart, duel string) string {
	text := ""
	for name, port := range map[string]string{"kart": kart, "duel": duel} {
		listener, upstream := "", ""
		if name == "kart" {
			listener = fmt.Sprintf("[listener.%s]\n%s\n", table, own)
		}
		if name == "kart" && protocol == servers {
			upstream = fmt.Sprintf("[upstream.%s]\n%s\n", table, own)
		}
		text += fmt.Sprintf("[[listener]]\nname = %[1]q\naddress = \"127.0.0.1:0\"\nprotocols = [%[2]q]\n"+
			"route = %[1]q\n%[4]s[[route]]\n"+
			"name = %[1]q\nupstream = %[1]q\nordered = \"fast\"\npacket_id = 0xfe\n[[upstream]]\nname = %[1]q\n"+
			"protocol = %[6]q\nservers = [\"127.0.0.1:%[3]s\"]\n%[5]s", name, protocol, port, listener, upstream, servers)
	}
	return text
}

// TestTwoRiptideGames stops the players of two games for longer than Riptide's own time-out of 5 s. The game whose
// table says 30 s plays on. (Between Riptide and ENet, the ends' own time-outs decide.)
func TestTwoRiptideGames(t *testing.T) {
	t.Parallel()
	kart, duel := goServer.server(t), goServer.server(t)
	p := runTidegate(t, severalText("riptide-2.2", "bedrock", "riptide", `timeout = "30s"`, kart.port, duel.port), 2)
	patient := startScript(t, python, "riptide_client.py", p.ports["kart"], udp, inHex("kart"), "30000")
	usual := startScript(t, python, "riptide_client.py", p.ports["duel"], udp, inHex("duel"))
	for _, client := range []*peer{patient, usual} {
		client.await(t, "connected")
		if err := syscall.Kill(client.pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if ended := p.await(t, "session ended"); ended.Route != "duel" || ended.Reason != "timed-out" {
		t.Errorf("first ended %+v, want duel's, by time-out", ended)
	}
	duel.await(t, "left")
	if err := syscall.Kill(patient.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	patient.order(t, order{Do: "send", ID: 9, Reliable: true, Payload: "c0de"})
	if got := patient.await(t, "received"); got.ID != 9 || got.Payload != "c0de" {
		t.Errorf("the patient player got %+v", got)
	}
}

// TestTwoENetGames plays two games with libenet. One grants its players two channels, the other all four that they
// ask for.
func TestTwoENetGames(t *testing.T) {
	t.Parallel()
	kart, duel := libenetPeer.server(t), libenetPeer.server(t)
	p := runTidegate(t, severalText("enet", "enet", "enet", "channels = 2", kart.port, duel.port), 2)
	few, all := libenetPeer.client(t, p.ports["kart"]), libenetPeer.client(t, p.ports["duel"])
	for _, client := range []*peer{few, all} {
		client.await(t, "connected")
		for _, channel := range []int{3, 1} { // the library sends nothing on a channel that it was not granted
			client.order(t, order{Do: "send", Channel: channel, Mode: "reliable", Payload: fmt.Sprintf("0%d", channel)})
		}
	}
	if got := few.await(t, "received"); got.Channel != 1 {
		t.Errorf("two channels were granted, and the first echo is on channel %d", got.Channel)
	}
	if a, b := all.await(t, "received"), all.await(t, "received"); a.Channel+b.Channel != 4 {
		t.Errorf("echoes on channels %d and %d, want 3 and 1", a.Channel, b.Channel)
	}
}

// TestTwoRUDPGames plays two games with two application IDs. A player of one is a stranger to the other. The peers are
// made from facts about the C# library, and share no code with the codec.
func TestTwoRUDPGames(t *testing.T) {
	t.Parallel()
	server := func(app string) *peer {
		return startServerAt(t, goPeer("rudp-server"), "", "127.0.0.1:"+freePort(t), "20", app)
	}
	client := func(port, app string) *peer {
		return startScript(t, goPeer("rudp-client"), "", "127.0.0.1:"+port, app)
	}
	kart, duel := server("10759"), server("0")
	p := runTidegate(t, severalText("rudp", "rudp", "rudp", "app_id = 0x2a07\nrate = 20", kart.port, duel.port)+
		"[rudp]\nrate = 20\n", 2)
	stranger := client(p.ports["duel"], "10759")
	for _, c := range []struct {
		server    *peer
		app, name string
	}{{kart, "10759", "kart"}, {duel, "0", "duel"}} {
		player := client(p.ports[c.name], c.app)
		player.await(t, "connected")
		c.server.await(t, "joined")
		player.order(t, order{Do: "burst", Count: 3, Size: rudpPiece})
		for i := range 3 {
			if n, ok := numberOf(player.await(t, "received").Payload); n != i || !ok {
				t.Errorf("%s: the player got message %d, want %d", c.name, n, i)
			}
		}
	}
	stranger.await(t, "refused")
}
