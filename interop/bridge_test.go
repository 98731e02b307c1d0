//go:build interop

package interop_test

import (
	"slices"
	"testing"
)

// contender is an implementation of one side.
type contender struct {
	name      string
	transport string
	protocol  string // a server's protocol in Tidegate's configuration
	upstream  string // more keys of [[upstream]] that a server needs
	noCookies bool   // a client that does not return RakNet's cookie
	dialect   string // a RakNet client's protocol in Tidegate's configuration; empty: bedrock
	largest   int    // bytes of the largest message that it accepts; 0: no limit here
	// forgets is set for a peer that never resends on its own, and on request only once. A message lost twice stays
	// lost. So the test loses nothing of it twice.
	forgets bool
	// deaf is set for a server that ignores a repeated request 2: if its first answer is lost, no client connects. So
	// the test loses nothing of the offline handshake.
	deaf bool
	// hasty is set for a server that counts a client as joined before the last step of the handshake.
	hasty    bool
	bears    int // bytes of the largest message that it delivers over a lossy path in time; 0: as largest
	language language
	client   func(t *testing.T, port string) *peer
	server   func(t *testing.T) *peer
}

var (
	pytideClients = []contender{pytideClient(udp), pytideClient(tcp)}
	pytideServers = []contender{pytideServer(udp), pytideServer(tcp)}
	goClient      = contender{name: "go-raknet", transport: udp, client: startGoClient}
	goServer      = contender{name: "go-raknet", transport: udp, protocol: "bedrock", server: startGoServer,
		largest: 512 * 1400} // it accepts 512 parts

	cloudburstClient = contender{name: "cloudburst", transport: udp, language: language{unreliable: true},
		client: script(java, "Cloudburst.java", "client")}
	// cloudburstServer takes 12 s to 2 minutes to send 1 MiB at 5 % loss. It blocks an address that sends it 120
	// datagrams in 10 ms (docs/operate/addresses.md#servers-that-block-addresses).
	cloudburstServer = contender{name: "cloudburst", transport: udp, protocol: "bedrock", bears: 128 << 10,
		upstream: "max_packets = 90", server: server(java, "Cloudburst.java", "server")}

	// jspServer ends when one client says goodbye, and sends a large message faster than a socket accepts it.
	jspServer = contender{name: "jsp-raknet", transport: udp, protocol: "bedrock", server: server(node, "jsp_server.js"),
		largest: 64 << 10, forgets: true, deaf: true}

	raknetClients = []contender{
		goClient,
		{name: "jsp-raknet", transport: udp, client: script(node, "jsp_client.js"), noCookies: true,
			language: language{unreliable: true}, forgets: true},
		{name: "raknet-node", transport: udp, client: script(node, "rust_client.js"), noCookies: true},
		cloudburstClient,
	}
	raknetServers = []contender{
		goServer,
		{name: "serenityjs", transport: udp, protocol: "bedrock", server: server(node, "serenity_server.js"),
			deaf: true},
		{name: "raknet-node", transport: udp, protocol: "bedrock", server: server(node, "rust_server.js"),
			hasty: true},
		cloudburstServer,
	}
)

func pytideClient(transport string) contender {
	return contender{name: "pytide over " + transport, transport: transport,
		client: script(python, "riptide_client.py", transport), language: language{ids: true, unreliable: true}}
}

func pytideServer(transport string) contender {
	return contender{name: "pytide over " + transport, transport: transport, protocol: "riptide-2.2",
		server: server(python, "riptide_server.py", transport)}
}

func script(in *runtime, name string, args ...string) func(t *testing.T, port string) *peer {
	return func(t *testing.T, port string) *peer { return startScript(t, in, name, port, args...) }
}

func server(in *runtime, name string, args ...string) func(t *testing.T) *peer {
	return func(t *testing.T) *peer { return startServer(t, in, name, args...) }
}

const (
	largestRiptide = 1225
	largestRakNet  = 20000 // in parts
)

// TestRiptideToRakNet checks the main use, with independent peers at both ends.
func TestRiptideToRakNet(t *testing.T) {
	everyPair(t, pytideClients, raknetServers, func(t *testing.T, from, to contender) {
		client, between, server := meet(t, from, to)
		client.order(t, order{Do: "send", ID: 0x1234, Reliable: true, Payload: "c0ffee"})
		if got := server.await(t, "received").Payload; got != "fe3412c0ffee" {
			t.Errorf("the server got %s, want packet byte, ID and payload: fe3412c0ffee", got)
		}
		client.await(t, "received")
		language := from.language
		language.largest = largestRiptide
		talk(t, client, language)
		between.stop(t)
		if e := client.await(t, "disconnected"); e.Reason != serverStopped {
			t.Errorf("the client was told reason %d at the end, want %d", e.Reason, serverStopped)
		}
		server.await(t, "left")
	})
}

// TestNotifyToRakNet checks that a notify message has no ID, as the next packet byte shows.
func TestNotifyToRakNet(t *testing.T) {
	everyPair(t, pytideClients, raknetServers[:1], func(t *testing.T, from, to contender) {
		client, _, server := meet(t, from, to)
		client.order(t, order{Do: "notify", Payload: "c0ffee"})
		if got := server.await(t, "received").Payload; got != "ffc0ffee" {
			t.Errorf("the server got %s, want packet byte and payload: ffc0ffee", got)
		}
	})
}

// TestRakNetToRiptide checks the main use in the other direction.
func TestRakNetToRiptide(t *testing.T) {
	everyPair(t, raknetClients, pytideServers, func(t *testing.T, from, to contender) {
		client, between, server := meet(t, from, to)
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

// TestRakNetToRakNet checks four implementations of RakNet on each side, with messages in parts.
func TestRakNetToRakNet(t *testing.T) {
	t.Parallel() // the only parallel test with go-raknet's dialer, as two at once may fail in it
	everyPair(t, raknetClients, raknetServers, func(t *testing.T, from, to contender) {
		client, between, server := meet(t, from, to)
		language := from.language
		language.largest = largestRakNet
		talk(t, client, language)
		sayGoodbye(t, between, client, server)
	})
}

// TestClientsLeave checks that a server notices each client's goodbye.
func TestClientsLeave(t *testing.T) {
	for _, from := range slices.Concat(raknetClients, pytideClients) {
		t.Run(from.name, func(t *testing.T) {
			client, between, server := meet(t, from, raknetServers[0])
			client.order(t, order{Do: "leave"})
			server.await(t, "left")
			if e := between.await(t, "session ended"); e.By != "client" || e.Reason != "closed" {
				t.Errorf("the session ended for %s by %s, want closed by client", e.Reason, e.By)
			}
		})
	}
}

// everyPair runs a subtest for each client with each server.
func everyPair(t *testing.T, clients, servers []contender, test func(t *testing.T, from, to contender)) {
	t.Helper()
	for _, from := range clients {
		for _, to := range servers {
			t.Run(from.name+" to "+to.name, func(t *testing.T) { test(t, from, to) })
		}
	}
}

// meet connects a client to a server through a proxy.
func meet(t *testing.T, from, to contender) (client *peer, between *proxy, server *peer) {
	t.Helper()
	return meetBy(t, from, to, route{})
}

// meetBy is meet by a route with further keys.
func meetBy(t *testing.T, from, to contender, by route) (client *peer, between *proxy, server *peer) {
	t.Helper()
	server = to.server(t)
	by.protocol, by.transport, by.server = to.protocol, to.transport, server.port
	by.upstream, by.noCookies, by.players = to.upstream, from.noCookies, from.dialect
	between = startTidegate(t, by)
	client = from.client(t, between.ports[from.transport])
	client.awaitWithin(t, "connected", 3*patience)
	server.await(t, "joined")
	return client, between, server
}

// sayGoodbye stops a proxy and checks that both sides notice.
func sayGoodbye(t *testing.T, between *proxy, client, server *peer) {
	t.Helper()
	between.stop(t)
	client.await(t, "disconnected")
	server.await(t, "left")
}

// TestServerOfAnotherVersion connects to a server with RakNet 10 only, which refuses the version 11 of the first
// request. This server splits messages wrongly and ends when a client says goodbye, so the test tries neither.
func TestServerOfAnotherVersion(t *testing.T) {
	server := startServer(t, node, "jsp_server.js")
	between := startTidegate(t, route{protocol: "bedrock", transport: udp, server: server.port})
	client := startGoClient(t, between.ports[udp])
	client.await(t, "connected")
	server.await(t, "joined")
	talk(t, client, language{largest: largestRiptide})
}
