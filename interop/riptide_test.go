//go:build interop

package interop_test

import (
	"encoding/hex"
	"testing"
)

// Reasons on Riptide's wire (docs/protocols/riptide.md#reasons).
const (
	rejected       = 3
	rejectedCustom = 4
	kicked         = 4
	serverStopped  = 5
)

// TestRiptideToRiptide checks that the bridge preserves all of Riptide's features, over each transport.
func TestRiptideToRiptide(t *testing.T) { everyPair(t, pytideClients, pytideServers, riptideToRiptide) }

func riptideToRiptide(t *testing.T, from, to contender) {
	server := to.server(t)
	between := startTidegate(t, route{protocol: to.protocol, transport: to.transport, server: server.port})
	connect := func(t *testing.T, data string) *peer {
		t.Helper()
		return startScript(t, python, "riptide_client.py", between.ports[from.transport], from.transport, inHex(data))
	}

	first := connect(t, "I am the first")
	if got := server.await(t, "asked").Payload; got != inHex("I am the first") {
		t.Errorf("connect data arrived as %s", got)
	}
	if told, is := first.await(t, "connected").Client, server.await(t, "joined").Client; told != is {
		t.Errorf("the client is %d to itself, %d to the server", told, is)
	}
	t.Run("messages", func(t *testing.T) {
		first.order(t, order{Do: "send", ID: 0x1234, Payload: "c0ffee"})
		if e := server.await(t, "received"); e.ID != 0x1234 || e.Payload != "c0ffee" || e.Reliable {
			t.Errorf("the server got %+v, want unreliable message 0x1234 of c0ffee", e)
		}
		if e := first.await(t, "received"); e.Reliable {
			t.Error("the echo of an unreliable message came reliably")
		}
		language := from.language
		language.largest = largestRiptide
		talk(t, first, language)
	})
	t.Run("notify messages", func(t *testing.T) {
		for _, text := range []string{"one", "another", "and a third"} {
			first.order(t, order{Do: "notify", Payload: inHex(text)})
			if got := first.await(t, "notified").Payload; got != inHex(text) {
				t.Errorf("%q came back as %s", text, got)
			}
		}
	})
	t.Run("news of others", func(t *testing.T) {
		second := connect(t, "I am the second")
		id := second.await(t, "connected").Client
		if e := first.await(t, "joined"); e.Client != id {
			t.Errorf("the first was told that %d joined, want %d", e.Client, id)
		}
		second.order(t, order{Do: "leave"})
		if e := first.await(t, "left"); e.Client != id {
			t.Errorf("the first was told that %d left, want %d", e.Client, id)
		}
	})
	t.Run("kick", func(t *testing.T) {
		guest := connect(t, "I shall be kicked")
		id := guest.await(t, "connected").Client
		server.order(t, order{Do: "kick", Client: &id, Payload: inHex("out you go")})
		if e := guest.await(t, "disconnected"); e.Reason != kicked || e.Payload != inHex("out you go") {
			t.Errorf("was told reason %d with %s, want %d and the server's data", e.Reason, e.Payload, kicked)
		}
	})
	t.Run("refusal", func(t *testing.T) {
		if e := connect(t, "refuse me").await(t, "refused"); e.Reason != rejected || e.Payload != "" {
			t.Errorf("was told reason %d with %q, want %d and nothing", e.Reason, e.Payload, rejected)
		}
	})
	t.Run("refusal with data", func(t *testing.T) {
		e := connect(t, "refuse me and say why").await(t, "refused")
		if e.Reason != rejectedCustom || e.Payload != inHex("no shoes, no service") {
			t.Errorf("was told reason %d with %q, want %d and the server's data", e.Reason, e.Payload, rejectedCustom)
		}
	})
	between.stop(t)
	if e := first.await(t, "disconnected"); e.Reason != serverStopped {
		t.Errorf("the first was told reason %d at the end, want %d", e.Reason, serverStopped)
	}
}

func inHex(text string) string { return hex.EncodeToString([]byte(text)) }

// TestStreamsBreak checks that a TCP connection without a goodbye ends the session and that the other side is told at
// once. pytide would not notice by itself.
func TestStreamsBreak(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		client, between, server := meet(t, pytideClient(tcp), pytideServer(tcp))
		if err := client.kill(); err != nil {
			t.Fatal(err)
		}
		server.await(t, "left")
		wantTransportError(t, between, "client")
	})
	t.Run("server", func(t *testing.T) {
		client, between, server := meet(t, pytideClient(tcp), pytideServer(tcp))
		if err := server.kill(); err != nil {
			t.Fatal(err)
		}
		if e := client.await(t, "disconnected"); e.Reason != serverStopped {
			t.Errorf("the client was told reason %d, want %d", e.Reason, serverStopped)
		}
		wantTransportError(t, between, "upstream")
	})
}

func wantTransportError(t *testing.T, between *proxy, by string) {
	t.Helper()
	if e := between.await(t, "session ended"); e.By != by || e.Reason != "transport-error" {
		t.Errorf("the session ended for %s by %s, want transport-error by %s", e.Reason, e.By, by)
	}
}
