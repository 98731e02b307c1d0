//go:build interop && linux

package interop_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReloadOfManyPorts adds 3,000 ports, and removes them, while a player waits for its echoes. Its longest wait is
// printed. A loop that opens all ports in one turn stands for more than a second.
func TestReloadOfManyPorts(t *testing.T) {
	server := startGoServer(t)
	between := startTidegate(t, route{protocol: "bedrock", transport: udp, server: server.port})
	player := startGoClient(t, between.ports[udp])
	player.awaitWithin(t, "connected", 3*patience)
	file := between.cmd.Args[len(between.cmd.Args)-1]
	few, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var more strings.Builder
	for i := range 3 {
		fmt.Fprintf(&more, "[[listener]]\nname = \"more%d\"\naddress = \"127.0.7.%d:20000-20999\"\n"+
			"protocols = [\"bedrock\"]\nroute = \"arena\"\n", i, i+1)
	}
	for i, text := range []string{string(few) + more.String(), string(few)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		reloaded := make(chan struct{})
		go func() {
			defer close(reloaded)
			between.await(t, "configuration reloaded")
		}()
		begun := time.Now()
		if err := between.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		longest := exchange(t, reloaded, player)
		sockets := between.descriptors(t)
		t.Logf("%d descriptors after %v, longest wait of a player %v", sockets,
			time.Since(begun).Round(time.Millisecond), longest.Round(100*time.Microsecond))
		if i == 0 && sockets < 3000 {
			t.Errorf("the ports are not open")
		}
		if longest > time.Second {
			t.Errorf("a player waited for %v", longest)
		}
	}
}
