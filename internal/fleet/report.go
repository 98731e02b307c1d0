package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Bounds of a report.
const (
	maxReport    = 768 << 10 // bytes; below the 1 MiB that NATS allows by default
	maxServers   = 2000      // of one node
	maxProtocols = 64
	maxSessions  = 1 << 24 // in one number
)

var (
	errReportSize = fmt.Errorf("more than %d bytes, %d servers or %d protocols", maxReport, maxServers, maxProtocols)
	errReport     = errors.New("a report with a number, a word or a server that no node has")
	errTwice      = errors.New("a report with a server or a protocol twice")
)

// report is what a node tells all others about its sessions. Each report is complete, so a lost one does no harm.
type report struct {
	instance  string // of the node's process
	number    uint64 // grows with each report of an instance
	sent      time.Time
	servers   []ServerCount
	protocols []ProtocolCount
}

// reportWire is the form of a report. Readers ignore fields that they do not know.
type reportWire struct {
	Instance  string         `json:"instance"`
	Number    uint64         `json:"number"`
	Sent      time.Time      `json:"sent"`
	Servers   []serverWire   `json:"servers"`
	Protocols []protocolWire `json:"protocols"`
}

type serverWire struct {
	Upstream string         `json:"u"`
	Server   netip.AddrPort `json:"s"`
	Sessions int            `json:"n"`
	State    string         `json:"state"`
}

type protocolWire struct {
	Protocol    string `json:"p"`
	Established int    `json:"n"`
	HalfOpen    int    `json:"half_open"`
}

// format returns a report as other nodes read it. Its caller keeps the bounds.
func (r *report) format() ([]byte, error) {
	w := reportWire{
		Instance: r.instance, Number: r.number, Sent: r.sent.UTC(),
		Servers: make([]serverWire, len(r.servers)), Protocols: make([]protocolWire, len(r.protocols)),
	}
	for i, s := range r.servers {
		w.Servers[i] = serverWire{s.Upstream, s.Addr, s.Sessions, s.State}
	}
	for i, p := range r.protocols {
		w.Protocols[i] = protocolWire(p)
	}
	return json.Marshal(&w)
}

// parseReport reads a report. Its sender may be hostile: all parts are checked and bounded.
func parseReport(value []byte) (*report, error) {
	if len(value) > maxReport {
		return nil, errReportSize
	}
	var w reportWire
	if err := json.Unmarshal(value, &w); err != nil {
		return nil, err
	}
	if len(w.Servers) > maxServers || len(w.Protocols) > maxProtocols {
		return nil, errReportSize
	}
	if y := w.Sent.UTC().Year(); y < 1 || y > 9999 || w.Sent.IsZero() {
		return nil, errTime
	}
	r := &report{instance: w.Instance, number: w.Number, sent: w.Sent.UTC()}
	if !isWord(r.instance) {
		return nil, errReport
	}
	if err := r.addServers(w.Servers); err != nil {
		return nil, err
	}
	return r, r.addProtocols(w.Protocols)
}

func (r *report) addServers(all []serverWire) error {
	r.servers = make([]ServerCount, len(all))
	seen, names := make(map[gameServer]struct{}, len(all)), make(map[string]string)
	intern := func(name string) string { // most servers share a few names
		if _, ok := names[name]; !ok {
			names[name] = name
		}
		return names[name]
	}
	for i, s := range all {
		one := gameServer{s.Upstream, s.Server}
		if !one.valid() || !isCount(s.Sessions) || !isWord(s.State) {
			return errReport
		}
		if seen[one] = struct{}{}; len(seen) != i+1 {
			return errTwice
		}
		r.servers[i] = ServerCount{intern(s.Upstream), s.Server, s.Sessions, intern(s.State)}
	}
	return nil
}

func (r *report) addProtocols(all []protocolWire) error {
	r.protocols = make([]ProtocolCount, len(all))
	seen := make(map[string]struct{}, len(all))
	for i, p := range all {
		if !isWord(p.Protocol) || !isCount(p.Established) || !isCount(p.HalfOpen) {
			return errReport
		}
		if seen[p.Protocol] = struct{}{}; len(seen) != i+1 {
			return errTwice
		}
		r.protocols[i] = ProtocolCount(p)
	}
	return nil
}

func isCount(n int) bool { return n >= 0 && n <= maxSessions }
