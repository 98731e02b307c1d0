package scenario

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// UpgradedProtocol is the result of Upgrade for the sessions of one protocol.
type UpgradedProtocol struct {
	Name     string  `json:"protocol"`
	Sessions int     `json:"sessions"`
	Earlier  int     `json:"ended_before"`
	Ended    int     `json:"ended"`
	Lost     int     `json:"lost"` // reliable messages
	Usual    float64 `json:"wait_longest_before_ms"`
	Longest  float64 `json:"wait_longest_ms"` // in the upgrade
	// Clients counts the ended sessions by the reason that the client knows. Proxy counts them by the reason and the side
	// in Tidegate's access log.
	Clients map[string]int `json:"reasons_of_clients,omitempty"`
	Proxy   map[string]int `json:"reasons_of_tidegate,omitempty"`
}

// Bounds in sessions. An RUDP session sends packets at a fixed rate, also without messages: by default 100 a second in
// each direction, on each side of the proxy. A share like that of the other protocols would be 670,000 datagrams a
// second with 10,000 sessions. An R-Type game has few players. Each session over TCP needs two descriptors of its own
// in the process, and two in the benchmark.
const (
	mostRUDP   = 30
	mostRType  = 100
	mostStream = 300
)

// often is the number of messages a second of each RUDP and R-Type client, in addition to those of all clients. They
// are so few that hardly any would send while the process stands still.
const often = 5

// upgradeKind is a kind of clients, with game servers of the same protocol.
type upgradeKind struct {
	name     string
	protocol codec.Protocol
	stream   *endpoint.StreamOptions // nil: UDP
	most     int                     // clients; 0: no bound
}

// numKinds is the number of kinds of clients.
var numKinds = len(messageProtocols) + 2

// upgradeKinds returns the kinds of an upgrade's clients.
func upgradeKinds() (all []upgradeKind) {
	for _, p := range messageProtocols {
		k := upgradeKind{name: p.Spec().Name, protocol: p}
		if k.name == protocols.RUDP.Name {
			k.most = mostRUDP
		}
		all = append(all, k)
	}
	const streamed = "riptide-2.2"
	stream := protocols.Find(streamed)
	return append(all,
		upgradeKind{name: protocols.RType16.Name, protocol: protocols.RType16.NewCalm(registry.Use{}), most: mostRType},
		upgradeKind{
			name: streamed + "-tcp", protocol: stream.NewCalm(registry.Use{Stream: true}), most: mostStream,
			stream: &endpoint.StreamOptions{Prefix: stream.Stream.Prefix},
		})
}

// entry returns the name of the kind's listener, route and upstream.
func (k *upgradeKind) entry() string { return strings.ReplaceAll(k.name, ".", "-") }

// transport returns the lines of the kind's listener and upstream about TCP.
func (k *upgradeKind) transport() string {
	if k.stream != nil {
		return "transport = \"tcp\"\n"
	}
	return ""
}

// serve starts a game server.
func (k *upgradeKind) serve() (*game, error) {
	if k.stream != nil {
		return startStreamGame(k.protocol, *k.stream)
	}
	return startGame(k.protocol)
}

// dial connects a client.
func (b *upgradeBench) dial(l *upgradeListener, client int) (*endpoint.Conn[*upgradePlayer], error) {
	if l.stream != nil {
		return b.endpoint.DialStream(l.protocol, l.at, codec.Hello{Identity: uint64(client) + 1}, *l.stream)
	}
	return b.endpoint.Dial(l.protocol, l.at, codec.Hello{Identity: uint64(client) + 1}, clientEndpoint(uint64(client)))
}

// listenerOf returns the listener of a client. Clients beyond the bound of a kind are of the kinds without bounds, in
// turn.
func listenerOf(listeners []upgradeListener, client int) *upgradeListener {
	n := len(listeners)
	l := &listeners[client%n]
	if l.most == 0 || client/n < l.most {
		return l
	}
	var free []*upgradeListener
	for i := range listeners {
		if listeners[i].most == 0 {
			free = append(free, &listeners[i])
		}
	}
	return free[(client/n+client%n)%len(free)]
}

// accessFile is the name of Tidegate's access log in the folder of the measurement.
const accessFile = "access.json"

// waitsByProtocol notes the longest waits before the upgrade.
func (b *upgradeBench) waitsByProtocol(r *Upgraded) {
	for _, p := range b.players {
		usual := &r.Each[slices.Index(r.Protocols, p.protocol)].Usual
		*usual = max(*usual, millis(p.longest))
	}
}

// byProtocol adds the results for each protocol.
func (b *upgradeBench) byProtocol(r *Upgraded) error {
	for _, p := range b.players {
		each := &r.Each[slices.Index(r.Protocols, p.protocol)]
		each.Sessions++
		each.Lost += p.lost()
		each.Longest = max(each.Longest, millis(p.longest))
		switch p.ended {
		case endedBefore:
			each.Earlier++
		case endedSince:
			each.Ended++
		default:
			continue
		}
		each.Clients[p.why.String()]++
	}
	file, err := os.Open(filepath.Join(b.dir, accessFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct{ Listener, Reason, By string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("access log: %w", err)
		}
		is := func(name string) bool { return line.Listener == (&upgradeKind{name: name}).entry() }
		if i := slices.IndexFunc(r.Protocols, is); i >= 0 {
			r.Each[i].Proxy[line.Reason+" by "+line.By]++
		}
	}
	return nil
}

// printReasons prints why sessions of a protocol ended, if any did.
func (e *UpgradedProtocol) printReasons(w io.Writer) {
	if e.Earlier+e.Ended == 0 && len(e.Proxy) == 0 {
		return
	}
	fmt.Fprintf(w, "%s sessions ended: at clients %s; at Tidegate %s\n", e.Name, counts(e.Clients), counts(e.Proxy))
}

// counts returns counted reasons as a text, the reasons in order.
func counts(all map[string]int) string {
	var texts []string
	for _, reason := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, fmt.Sprintf("%d %q", all[reason], reason))
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}
