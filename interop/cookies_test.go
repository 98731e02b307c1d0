//go:build interop

package interop_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestServersOfEachCookieMode uses a Cloudburst server with cookies by the published algorithm, from an independent
// implementation.
func TestServersOfEachCookieMode(t *testing.T) {
	for _, c := range []struct {
		mode    string
		keys    string // keys of [[upstream]] besides the mode
		refused bool
	}{
		{mode: "active"},
		{mode: "offloaded"},
		{mode: "offloaded_psk", keys: secretKey("ab")},
		{mode: "offloaded_psk", keys: secretKey("00"), refused: true},
	} {
		t.Run(fmt.Sprintf("%s/refused=%t", c.mode, c.refused), func(t *testing.T) {
			t.Parallel()
			server := startServer(t, java, "Cloudburst.java", "server", c.mode, strings.Repeat("ab", 32))
			between := startTidegate(t, route{protocol: "bedrock", transport: udp, server: server.port,
				upstream: fmt.Sprintf("cookie_mode = %q\n%s", c.mode, c.keys)})
			client := startOwnClient(t, between.ports[udp])
			if c.refused {
				if e := between.await(t, "session ended"); e.By != "upstream" || e.Reason != "transport-error" {
					t.Errorf("ended for %s by %s, want transport-error (silence) by upstream", e.Reason, e.By)
				}
				return
			}
			client.awaitWithin(t, "connected", 3*patience)
			server.await(t, "joined")
			talk(t, client, language{largest: largestRakNet})
			sayGoodbye(t, between, client, server)
		})
	}
}

// TestPlayersOfEachCookieMode connects clients to a Tidegate with published cookies, and to two in a chain: the first
// issues the cookies and the second checks them.
func TestPlayersOfEachCookieMode(t *testing.T) {
	for _, c := range []struct{ first, behind string }{
		{first: "active"},
		{first: "private", behind: "offloaded"},
		{first: "private", behind: "offloaded_psk"},
	} {
		t.Run(c.first+"/"+c.behind, func(t *testing.T) {
			t.Parallel()
			server := startOwnServer(t)
			to := route{protocol: "bedrock", transport: udp, server: server.port}
			if c.behind != "" {
				keys := fmt.Sprintf("cookie_mode = %q\n", c.behind)
				if c.behind == "offloaded_psk" {
					keys += secretKey("cd")
				}
				to.bedrock = keys
				second := startTidegate(t, to)
				to = route{protocol: "bedrock", transport: udp, server: second.ports[udp], upstream: keys}
			} else {
				to.bedrock = fmt.Sprintf("cookie_mode = %q\n%s", c.first, secretKey("ef"))
			}
			between := startTidegate(t, to)
			client := startScript(t, java, "Cloudburst.java", between.ports[udp], "client")
			client.awaitWithin(t, "connected", 3*patience)
			server.await(t, "joined")
			talk(t, client, language{largest: largestRakNet})
			client.order(t, order{Do: "leave"})
			server.await(t, "left")
		})
	}
}

func secretKey(digits string) string {
	return fmt.Sprintf("cookie_secret = %q", strings.Repeat(digits, 32))
}
