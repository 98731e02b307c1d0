package bench

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
	"tidegate/codec/rudp"
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

// An RUDP session sends packets at a fixed rate, also without messages. At the default of 100 a second, 10,000 sessions
// of all protocols are 670,000 datagrams a second of RUDP alone. So RUDP has fewer sessions than other protocols, at a
// lower rate: together they send rudpPackets a second in each direction, on each side of the proxy.
const (
	mostRUDP    = 300 // sessions
	rudpPackets = 3_000
	rudpFastest = 100 // packets a second of a session
)

// rudpRate returns the rate of each RUDP session, if there are so many sessions of all protocols.
func rudpRate(sessions int) uint8 {
	own := min(max(1, sessions/len(messageProtocols)), mostRUDP)
	return uint8(min(rudpPackets/own, rudpFastest))
}

// upgradeProtocols returns the protocols of an upgrade's sessions.
func upgradeProtocols(rate uint8) []codec.Protocol {
	all := slices.Clone(messageProtocols)
	for i, p := range all {
		if p.Spec().Name == rudp.Descriptor.Name {
			options := rudp.Descriptor.Options().(*rudp.Settings)
			options.Rate = rate
			all[i] = protocols.Find(rudp.Descriptor.Name).New(options, registry.Use{})
		}
	}
	return all
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
		var line struct{ Protocol, Reason, By string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("access log: %w", err)
		}
		if i := slices.Index(r.Protocols, line.Protocol); i >= 0 {
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
