package stats

import (
	"net/netip"
	"strings"
	"time"

	"tidegate/codec"
)

// MaxServers bounds the servers that a Tallies names. Reloads can bring new servers without end.
const MaxServers = 256

// OtherServers is the name under which servers count that have no tally of their own.
const OtherServers = "other"

// ServerTally counts the joins and checks of one configured server, and samples the connections of its sessions.
// Counts never decrease.
type ServerTally struct {
	Upstream, Server string
	Joined           uint64                    // connections that the server accepted
	Refused          [codec.ReasonCount]uint64 // connections that it refused or did not answer
	Checks           Histogram                 // round trips of passed health checks
	FailedChecks     uint64
	ToClients        Leg // of the sessions at this server
	ToServer         Leg
}

// Leg has the samples of one side of the sessions at a server.
type Leg struct {
	RTT    Histogram
	Resent uint64 // transmissions of messages to the side after their first
	Lost   uint64 // messages or datagrams to the side whose first transmission is known to be lost
}

func (l *Leg) add(o *Leg) {
	l.RTT.Add(&o.RTT)
	l.Resent += o.Resent
	l.Lost += o.Lost
}

func (t *ServerTally) add(o *ServerTally) {
	t.Joined += o.Joined
	for why, n := range o.Refused {
		t.Refused[why] += n
	}
	t.Checks.Add(&o.Checks)
	t.FailedChecks += o.FailedChecks
	t.ToClients.add(&o.ToClients)
	t.ToServer.add(&o.ToServer)
}

// Legs returns both legs. A nil tally has none.
func (t *ServerTally) Legs() (toClients, toServer *Leg) {
	if t == nil {
		return nil, nil
	}
	return &t.ToClients, &t.ToServer
}

// AllRefused returns the number of refused connections.
func (t *ServerTally) AllRefused() (all uint64) {
	for _, n := range t.Refused {
		all += n
	}
	return all
}

// Checked counts a health check.
func (t *ServerTally) Checked(passed bool, rtt time.Duration) {
	if !passed {
		t.FailedChecks++
		return
	}
	t.Checks.observe(rtt)
}

// serverKey names a server. The zero address stands for OtherServers.
type serverKey struct {
	upstream string
	server   netip.AddrPort
}

// ServerOf returns the tally of a server, and makes a missing one. Servers beyond MaxServers share one for each
// upstream. So do servers with the zero address.
func (t *Tallies) ServerOf(upstream string, server netip.AddrPort) *ServerTally {
	upstream, _, _ = strings.Cut(upstream, ":") // without the port of a listener with many ports
	key := serverKey{upstream, server}
	if one := t.servers[key]; one != nil {
		return one
	}
	if len(t.servers) >= MaxServers {
		key.server = netip.AddrPort{}
	}
	name := OtherServers
	if key.server.IsValid() {
		name = server.String()
	}
	return t.addServer(key, name)
}

func (t *Tallies) addServer(key serverKey, name string) *ServerTally {
	if one := t.servers[key]; one != nil {
		return one
	}
	if t.servers == nil {
		t.servers = make(map[serverKey]*ServerTally)
	}
	one := &ServerTally{Upstream: key.upstream, Server: name}
	t.servers[key] = one
	t.Servers = append(t.Servers, one)
	return one
}

// joinServers adds the tallies of another Relay's servers.
func (t *Tallies) joinServers(servers []*ServerTally) {
next:
	for _, o := range servers {
		for _, one := range t.Servers {
			if one.Upstream == o.Upstream && one.Server == o.Server {
				one.add(o)
				continue next
			}
		}
		t.Servers = append(t.Servers, o)
	}
}
