//go:build interop

package interop_test

import "testing"

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
