package setup

import (
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/proxy/relay"
)

// riptideStreams is a configuration with a TCP listener for each Riptide version, one of them on the same port as a
// UDP listener.
const riptideStreams = `
[[listener]]
name = "old"
address = "127.0.0.1:7700"
transport = "tcp"
protocols = ["riptide-2.0"]
route = "old"
[[listener]]
name = "new"
address = "127.0.0.1:7701"
transport = "tcp"
protocols = ["riptide-2.2"]
route = "new"
[[listener]]
name = "datagrams"
address = "127.0.0.1:7701"
protocols = ["riptide-2.2"]
route = "new"
[[route]]
name = "old"
upstream = "old"
[[route]]
name = "new"
upstream = "new"
[[upstream]]
name = "old"
transport = "tcp"
protocol = "riptide-2.0"
servers = ["127.0.0.1:7800"]
[[upstream]]
name = "new"
protocol = "riptide-2.2"
servers = ["127.0.0.1:7801"]
[riptide]
max_payload = 2000
`

func TestTransportsOfSettings(t *testing.T) {
	old := relay.Transport{Stream: true, Prefix: netio.LengthU16LE, MaxFrame: 2006}
	recent := relay.Transport{Stream: true, Prefix: netio.LengthI32LE, MaxFrame: 2006}
	datagrams := relay.Transport{ReceiveBuffer: 1 << 20}
	c, _, err := config.Parse("t.toml", []byte(riptideStreams), Traits())
	if err != nil {
		t.Fatal(err)
	}
	s := Settings(c, 1, NewSecrets())
	for i, want := range []struct{ client, upstream relay.Transport }{
		{old, old}, {recent, datagrams}, {relay.Transport{}, datagrams},
	} {
		l := &s.Listeners[i]
		if l.Transport != want.client || l.Route.Upstream.Transport != want.upstream {
			t.Errorf("%s: %+v to %+v, want %+v", l.Name, l.Transport, l.Route.Upstream.Transport, want)
		}
	}
}

func TestWhichProtocolsHaveStreams(t *testing.T) {
	for name, traits := range Traits() {
		if want := strings.HasPrefix(name, "riptide-"); traits.Stream != want {
			t.Errorf("%s: Stream = %v, want %v", name, traits.Stream, want)
		}
	}
}
