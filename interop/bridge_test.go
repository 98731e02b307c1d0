//go:build interop

package interop_test

import "testing"

// contender is one implementation of a side.
type contender struct {
	name      string
	noCookies bool // a client that does not return RakNet's cookie
	language  language
	client    func(t *testing.T, port string) *peer
	server    func(t *testing.T) *peer
}

var (
	pytideClient = contender{name: "pytide", client: script(python, "riptide_client.py"),
		language: language{ids: true, unreliable: true}}
	raknetClients = []contender{
		{name: "go-raknet", client: startGoClient},
		{name: "jsp-raknet", client: script(node, "jsp_client.js"), noCookies: true, language: language{unreliable: true}},
		{name: "raknet-node", client: script(node, "rust_client.js"), noCookies: true},
	}
	raknetServers = []contender{
		{name: "go-raknet", server: startGoServer},
		{name: "serenityjs", server: server(node, "serenity_server.js")},
		{name: "raknet-node", server: server(node, "rust_server.js")},
	}
	pytideServer = contender{name: "pytide", server: server(python, "riptide_server.py")}
)

func script(in *runtime, name string) func(t *testing.T, port string) *peer {
	return func(t *testing.T, port string) *peer { return startScript(t, in, name, port) }
}

func server(in *runtime, name string) func(t *testing.T) *peer {
	return func(t *testing.T) *peer { return startServer(t, in, name) }
}

const (
	largestRiptide = 1225
	largestRakNet  = 20000 // in pieces
)

// TestRiptideToRakNet is the main job, with strangers at both ends.
func TestRiptideToRakNet(t *testing.T) {
	for _, to := range raknetServers {
		t.Run(to.name, func(t *testing.T) {
			server := to.server(t)
			between := startTidegate(t, route{protocol: "bedrock", server: server.port})
			client := pytideClient.client(t, between.port)
			client.await(t, "connected")
			server.await(t, "joined")
			client.order(t, order{Do: "send", ID: 0x1234, Reliable: true, Payload: "c0ffee"})
			if got := server.await(t, "received").Payload; got != "fe3412c0ffee" {
				t.Errorf("the server got %s, want packet byte, ID and payload: fe3412c0ffee", got)
			}
			client.await(t, "received")
			language := pytideClient.language
			language.largest = largestRiptide
			talk(t, client, language)
			between.stop(t)
			if e := client.await(t, "disconnected"); e.Reason != serverStopped {
				t.Errorf("the client was told reason %d at the end, want %d", e.Reason, serverStopped)
			}
			server.await(t, "left")
		})
	}
}

// TestRakNetToRiptide is the same the other way round.
func TestRakNetToRiptide(t *testing.T) {
	for _, from := range raknetClients {
		t.Run(from.name, func(t *testing.T) {
			server := pytideServer.server(t)
			between := startTidegate(t, route{protocol: "riptide-2.2", server: server.port, noCookies: from.noCookies})
			client := from.client(t, between.port)
			client.await(t, "connected")
			server.await(t, "joined")
			client.order(t, order{Do: "send", Reliable: true, Payload: "fe3412c0ffee"})
			if e := server.await(t, "received"); e.ID != 0x1234 || e.Payload != "c0ffee" || !e.Reliable {
				t.Errorf("the server got %+v, want reliable message 0x1234 of c0ffee", e)
			}
			client.await(t, "received")
			language := from.language
			language.bridged, language.largest = true, largestRiptide
			talk(t, client, language)
			sayGoodbye(t, between, client, server)
		})
	}
}

// TestRakNetToRakNet: three implementations of RakNet on each side, with messages that go in pieces.
func TestRakNetToRakNet(t *testing.T) {
	for _, from := range raknetClients {
		for _, to := range raknetServers {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				server := to.server(t)
				between := startTidegate(t, route{protocol: "bedrock", server: server.port, noCookies: from.noCookies})
				client := from.client(t, between.port)
				client.await(t, "connected")
				server.await(t, "joined")
				language := from.language
				language.largest = largestRakNet
				talk(t, client, language)
				sayGoodbye(t, between, client, server)
			})
		}
	}
}

// TestClientsLeave: a server hears of a client's goodbye, whoever says it.
func TestClientsLeave(t *testing.T) {
	for _, from := range append(raknetClients, pytideClient) {
		t.Run(from.name, func(t *testing.T) {
			server := startGoServer(t)
			between := startTidegate(t, route{protocol: "bedrock", server: server.port, noCookies: from.noCookies})
			client := from.client(t, between.port)
			client.await(t, "connected")
			server.await(t, "joined")
			client.order(t, order{Do: "leave"})
			server.await(t, "left")
			if e := between.await(t, "session ended"); e.By != "client" || e.Reason != "closed" {
				t.Errorf("the session ended for %s by %s, want closed by client", e.Reason, e.By)
			}
		})
	}
}

// sayGoodbye stops a proxy, of which both sides are told.
func sayGoodbye(t *testing.T, between *proxy, client, server *peer) {
	t.Helper()
	between.stop(t)
	client.await(t, "disconnected")
	server.await(t, "left")
}
