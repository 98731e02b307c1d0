//go:build interop

package interop_test

import (
	"fmt"
	"testing"
)

// TestRestartedRiptideServer kills a real server and starts it again while real clients play. All clients keep their
// places and their client IDs, although one has left before. No client is told.
func TestRestartedRiptideServer(t *testing.T) {
	for _, transport := range []string{udp, tcp} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			restartRiptide(t, transport)
		})
	}
}

func restartRiptide(t *testing.T, transport string) {
	server := startServer(t, python, "riptide_server.py", transport)
	between := startTidegate(t, route{
		protocol: "riptide-2.2", transport: transport, server: server.port,
		failover: "failover = \"hold\"\nhold_time = \"1m\"",
	})
	var clients []*peer
	var ids []uint16
	for i := range 5 { // as many as the server takes
		client := startScript(t, python, "riptide_client.py", between.ports[transport], transport)
		id := client.await(t, "connected").Client
		server.await(t, "joined")
		if i == 1 { // leaves a gap
			client.order(t, order{Do: "leave"})
			server.await(t, "left")
			continue
		}
		clients, ids = append(clients, client), append(ids, id)
	}
	if err := server.kill(); err != nil {
		t.Fatal(err)
	}
	for range clients {
		between.await(t, "session held")
	}
	for i, client := range clients {
		client.order(t, order{Do: "send", ID: 7, Reliable: true, Payload: fmt.Sprintf("%02x", i)})
	}
	again := startScript(t, python, "riptide_server.py", server.port, transport)
	again.awaitWithin(t, "listening", 3*patience)
	came := make(map[uint16]string)
	for range clients {
		e := again.await(t, "received")
		came[e.Client] = e.Payload
	}
	for i, client := range clients {
		if want := fmt.Sprintf("%02x", i); came[ids[i]] != want {
			t.Errorf("client %d is another one to the restarted server: %v", ids[i], came)
		}
		if got := client.await(t, "received").Payload; got != fmt.Sprintf("%02x", i) {
			t.Errorf("client %d got %s", ids[i], got)
		}
	}
}
