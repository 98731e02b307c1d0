package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
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
// Readers ignore fields that they do not know.
type report struct {
	Instance  string          `json:"instance"` // of the node's process
	Number    uint64          `json:"number"`   // grows with each report of an instance
	Sent      time.Time       `json:"sent"`
	Servers   []ServerCount   `json:"servers"`
	Protocols []ProtocolCount `json:"protocols"`
}

// format returns a report as other nodes read it. Its caller keeps the bounds.
func (r *report) format() ([]byte, error) { return json.Marshal(r) }

// parseReport reads a report. Its sender may be hostile: all parts are checked and bounded.
func parseReport(value []byte) (*report, error) {
	r := new(report)
	if len(value) > maxReport {
		return nil, errReportSize
	}
	if err := json.Unmarshal(value, r); err != nil {
		return nil, err
	}
	if len(r.Servers) > maxServers || len(r.Protocols) > maxProtocols {
		return nil, errReportSize
	}
	if r.Sent = r.Sent.UTC(); r.Sent.Year() < 1 || r.Sent.Year() > 9999 || r.Sent.IsZero() {
		return nil, errTime
	}
	if !isWord(r.Instance) {
		return nil, errReport
	}
	if err := r.checkServers(); err != nil {
		return nil, err
	}
	return r, r.checkProtocols()
}

// checkServers checks the servers, and lets them share the few names that most of them have.
func (r *report) checkServers() error {
	seen, names := make(map[gameServer]struct{}, len(r.Servers)), make(map[string]string)
	intern := func(name *string) {
		if _, ok := names[*name]; !ok {
			names[*name] = *name
		}
		*name = names[*name]
	}
	for i := range r.Servers {
		s := &r.Servers[i]
		one := gameServer{s.Upstream, s.Addr}
		if !one.valid() || !isCount(s.Sessions) || !isWord(s.State) {
			return errReport
		}
		if seen[one] = struct{}{}; len(seen) != i+1 {
			return errTwice
		}
		intern(&s.Upstream)
		intern(&s.State)
	}
	return nil
}

func (r *report) checkProtocols() error {
	seen := make(map[string]struct{}, len(r.Protocols))
	for i, p := range r.Protocols {
		if !isWord(p.Protocol) || !isCount(p.Established) || !isCount(p.HalfOpen) {
			return errReport
		}
		if seen[p.Protocol] = struct{}{}; len(seen) != i+1 {
			return errTwice
		}
	}
	return nil
}

func isCount(n int) bool { return n >= 0 && n <= maxSessions }
