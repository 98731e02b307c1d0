package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"tidegate/internal/each"
	"tidegate/internal/policy"
	"tidegate/ratelimit"
)

func (v *validator) access() {
	v.names("access", each.Of(v.Access, func(a Access) string { return a.Name }))
	v.countRules("access", len(v.Access))
	for i, a := range v.Access {
		path := item("access", i)
		if a.Verdict == "" {
			v.fault(child(path, "verdict"), nil, either(a.Verdict.Choices()))
		}
		if len(a.Prefixes)+len(a.Files)+len(a.Countries)+len(a.Networks) == 0 {
			v.fault(child(path, "prefixes"), nil,
				`at least one of prefixes, files, countries and networks; ["0.0.0.0/0", "::/0"] matches every address`)
		}
		v.scope(path, a.Listeners)
		for j, file := range a.Files {
			v.file(item(child(path, "files"), j), file, "the path of a file with a prefix on each line")
		}
		v.accessDatabases(path, a)
	}
}

// file reports a file that cannot be read.
func (v *validator) file(key, file, want string) {
	info, err := os.Stat(v.Path(file))
	switch {
	case file == "":
		v.fault(key, file, want)
	case errors.Is(err, fs.ErrNotExist):
		v.fault(key, file, want+"; "+v.Path(file)+" does not exist")
	case err != nil:
		v.fault(key, file, want+"; "+err.Error())
	case info.IsDir():
		v.fault(key, file, want+"; "+v.Path(file)+" is a folder")
	}
}

// geo checks that the databases exist.
func (v *validator) geo() {
	if v.Geo.CountryFile != "" {
		v.file("geo.country_file", v.Geo.CountryFile, "the path of a MaxMind database of countries")
	}
	if v.Geo.NetworkFile != "" {
		v.file("geo.network_file", v.Geo.NetworkFile, "the path of a MaxMind database of networks (ASN)")
	}
}

// accessDatabases checks countries and networks, which need a database each.
func (v *validator) accessDatabases(path string, a Access) {
	for j, code := range a.Countries {
		if len(code) != 2 || strings.Contains(code, " ") || !strings.Contains(countryCodes, code+" ") {
			v.fault(item(child(path, "countries"), j), code, `a country's code of two capital letters, as "DE" (ISO 3166)`)
		}
	}
	if len(a.Countries) > 0 && v.Geo.CountryFile == "" {
		v.fault("geo.country_file", nil, "the path of a MaxMind database of countries; "+v.where(path)+" needs it")
	}
	for j, number := range a.Networks {
		within(v.report, item(child(path, "networks"), j), number, 1, maxASN)
	}
	if len(a.Networks) > 0 && v.Geo.NetworkFile == "" {
		v.fault("geo.network_file", nil, "the path of a MaxMind database of networks (ASN); "+v.where(path)+" needs it")
	}
}

func (v *validator) countRules(list string, n int) {
	if n > maxRules {
		v.fault(item(list, maxRules), nil, fmt.Sprintf("at most %d rules of a kind", maxRules))
	}
}

// scope checks the listeners that a rule names.
func (v *validator) scope(path string, listeners []string) {
	for j, name := range listeners {
		v.reference(item(child(path, "listeners"), j), name, "listener", each.Of(v.Listeners, listenerName))
	}
}

func (v *validator) filters() {
	v.names("filter", each.Of(v.Filters, func(f Filter) string { return f.Name }))
	v.countRules("filter", len(v.Filters))
	for i, f := range v.Filters {
		path := item("filter", i)
		v.filterVerdict(path, f)
		v.warnRelayFilter(path, f)
		v.scope(path, f.Listeners)
		for j, name := range f.Protocols {
			v.protocol(item(child(path, "protocols"), j), name, func(t Traits) bool { return !t.Opaque })
		}
		for j, r := range f.Packets {
			if _, high := r.Bounds(); high > 255 {
				v.fault(item(child(path, "packets"), j), r, "bytes: 0 to 255")
			}
		}
		if f.MaxSize > 0 && f.MaxSize < f.MinSize {
			v.fault(child(path, "max_size"), f.MaxSize, fmt.Sprintf(`"0B", for no bound, or at least min_size, which is %s`,
				f.MinSize))
		}
	}
}

func (v *validator) filterVerdict(path string, f Filter) {
	key := child(path, "verdict")
	all := f.From.Is(policy.Both) && len(f.Listeners)+len(f.Protocols)+len(f.IDs)+len(f.Packets)+len(f.Modes) == 0 &&
		f.MinSize == 0 && f.MaxSize == 0 && f.Rate == 0
	switch {
	case f.Verdict == "":
		v.fault(key, nil, either(f.Verdict.Choices()))
	case f.Verdict.Is(filterVerdict(ratelimit.BanSource)) && !f.From.Is(policy.FromClient):
		v.fault(key, f.Verdict, `another verdict, or from = "client": players are not responsible for messages from servers`)
	case all && f.Verdict.Value() > filterVerdict(ratelimit.Observe):
		v.warn(key, f.Verdict, "a condition, such as ids or rate: this rule matches every message")
	}
}

// warnRelayFilter warns about a message rule for listeners whose routes relay datagrams and so never see messages.
func (v *validator) warnRelayFilter(path string, f Filter) {
	var relayed []string
	for _, l := range v.Listeners {
		about := len(f.Listeners) == 0 || slices.Contains(f.Listeners, l.Name)
		relays := func(r Route) bool { return r.Name == l.Route && r.Mode.Is(policy.ModeRelay) }
		if about && slices.ContainsFunc(v.Routes, relays) {
			relayed = append(relayed, `"`+l.Name+`"`)
		}
	}
	if len(relayed) > 0 {
		v.warn(child(path, "listeners"), f.Listeners, `listeners of routes with mode = "terminate": a relay sees no `+
			`messages, so `+
			"this rule has no effect on "+strings.Join(relayed, ", "))
	}
}

// rates checks the limits of rates and queues.
func (v *validator) rates() {
	for i, l := range v.Rates {
		path := item("limit", i)
		if l.Of == "" {
			v.fault(child(path, "of"), nil, either(l.Of.Choices()))
		}
		if l.Per == "" {
			v.fault(child(path, "per"), nil, either(l.Per.Choices()))
		}
		for j, other := range v.Rates[:i] {
			if l.Of == other.Of && l.Per == other.Per && l.Of != "" && l.Per != "" {
				v.fault(path, nil, fmt.Sprintf("one limit of %s per %s; %s already is one", l.Of, l.Per, v.where(item("limit", j))))
			}
		}
		v.rate(path, l)
	}
}

func (v *validator) rate(path string, l Limit) {
	if l.Of.Is(ratelimit.Handshakes) && l.Per.Is(ratelimit.PerSession) {
		v.fault(child(path, "per"), l.Per, `"address", "network" or "overall": a session has one handshake`)
	}
	if l.Of.Is(ratelimit.Handshakes) && l.Verdict.Value() > limitVerdict(ratelimit.Drop) {
		v.fault(child(path, "verdict"), l.Verdict, `"drop" or "observe": a new client has no session to end, and its `+
			`address may be forged`)
	}
	if l.Verdict.Is(limitVerdict(ratelimit.Pass)) {
		return
	}
	within(v.report, child(path, "rate"), l.Rate, 1, maxAmount)
	switch least := Amount(largestDatagram); {
	case l.Of.Is(ratelimit.Bytes) && l.Burst != 0:
		within(v.report, child(path, "burst"), l.Burst, least, maxAmount)
	case l.Of.Is(ratelimit.Bytes):
		within(v.report, child(path, "rate"), l.Rate, least, maxAmount)
	case l.Of.Is(ratelimit.QueuedBytes) && l.Burst != 0:
		v.fault(child(path, "burst"), l.Burst, "no burst: queued_bytes is not a rate")
	default:
		within(v.report, child(path, "burst"), l.Burst, 0, maxAmount)
	}
}
