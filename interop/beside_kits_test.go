//go:build interop

package interop_test

import (
	"encoding/hex"
	"fmt"
	"strconv"
)

// kit is a library at both ends.
type kit struct {
	name     string
	protocol string // in Tidegate's configuration
	ordered  bool   // its reliable messages have an order
	lossy    bool   // it has no reliable messages
	// server starts a server at an address.
	server func(s *stage, address string) *peer
	// join has some players begin to join. They are the next ones, or player first again.
	join func(s *stage, first, count int)
}

// eachAProcess has each player run as a process of its own. port is the player's own one, or 0.
func eachAProcess(client func(s *stage, port string) *peer) func(s *stage, first, count int) {
	return func(s *stage, first, count int) {
		for i := range count {
			s.watchPlayers(client(s, s.port), first+i, 1)
		}
	}
}

// allInOne has all players run in one process.
func allInOne(client func(s *stage) *peer) func(s *stage, first, count int) {
	return func(s *stage, first, count int) {
		p := client(s)
		s.watchPlayers(p, first, count)
		_ = p.do(order{Do: "join", Count: count}) // to a dead peer it is lost
	}
}

func stockKit(name, protocol string, in *runtime) *kit {
	return &kit{name: name, protocol: protocol, ordered: true,
		server: func(s *stage, address string) *peer {
			args := append([]string{"server"}, s.row.serverArgs...)
			return startScript(s.t, s.inside(in, true), "beside_stock.py", address, args...)
		},
		join: eachAProcess(func(s *stage, port string) *peer {
			args := append([]string{"client", "port=" + port}, s.row.clientArgs...)
			return startScript(s.t, s.inside(in, false), "beside_stock.py", s.door, args...)
		}),
	}
}

var (
	stockRakNet   = stockKit("stock RakNet", "raknet", stock)
	stock11RakNet = stockKit("stock RakNet 11", "bedrock", stock11)

	goRakNet = &kit{name: "go-raknet", protocol: "bedrock", ordered: true,
		server: func(s *stage, address string) *peer {
			return startScript(s.t, s.inside(goPeer("go-raknet-server"), true), "", address)
		},
		join: allInOne(func(s *stage) *peer {
			in, guid := s.inside(goPeer("go-raknet-client"), false), strconv.Itoa(s.row.guid)
			return startScript(s.t, in, "", s.door, s.port, guid)
		}),
	}
)

// cSharp is Riptide by the rules of the C# library, at a number of ticks a second.
func cSharp(hz, places int) *kit {
	rate := strconv.Itoa(hz)
	return &kit{name: fmt.Sprintf("Riptide, C# rules, %d Hz", hz), protocol: "riptide-2.2",
		server: func(s *stage, address string) *peer {
			args := append([]string{strconv.Itoa(places), rate}, s.row.serverArgs...)
			return startScript(s.t, s.inside(goPeer("riptide-server"), true), "", address, args...)
		},
		join: allInOne(func(s *stage) *peer {
			args := append([]string{rate}, s.row.clientArgs...)
			return startScript(s.t, s.inside(goPeer("riptide-client"), false), "", s.door, args...)
		}),
	}
}

// cSharpRUDP is RUDP by the rules of its C# library, at a number of packets a second.
func cSharpRUDP(hz int) *kit {
	return &kit{name: fmt.Sprintf("RUDP, C# rules, %d Hz", hz), protocol: "rudp", lossy: true,
		server: func(s *stage, address string) *peer {
			return startScript(s.t, s.inside(goPeer("rudp-server"), true), "", address, strconv.Itoa(hz))
		},
		join: eachAProcess(func(s *stage, _ string) *peer {
			return startScript(s.t, s.inside(goPeer("rudp-client"), false), "", s.door)
		}),
	}
}

// libENet is the C library. Its peers take the library's three time-outs.
var libENet = &kit{name: "libenet", protocol: "enet", ordered: true,
	server: func(s *stage, address string) *peer {
		args := append([]string{"server"}, s.row.serverArgs...)
		return startScript(s.t, s.inside(libenet, true), "beside_enet.py", address, args...)
	},
	join: eachAProcess(func(s *stage, port string) *peer {
		args := append([]string{"client", "port=" + port}, s.row.clientArgs...)
		return startScript(s.t, s.inside(libenet, false), "beside_enet.py", s.door, args...)
	}),
}

// cloudburst is CloudburstMC's library. Its peers take one message at a time, and do not tell when they begin.
var cloudburst = &kit{name: "Cloudburst", protocol: "bedrock", ordered: true,
	server: func(s *stage, address string) *peer {
		return startScript(s.t, s.inside(java, true), "Cloudburst.java", address, "server")
	},
	join: eachAProcess(func(s *stage, _ string) *peer {
		p := startScript(s.t, s.inside(java, false), "Cloudburst.java", s.door, "client")
		do := p.do
		p.do = func(o order) error {
			if o.Do != "burst" {
				return do(o)
			}
			for i := range o.Count {
				if err := do(order{Do: "send", Reliable: true, Payload: hex.EncodeToString(burstMessage(o, i))}); err != nil {
					return err
				}
			}
			return nil
		}
		return p
	}),
}
