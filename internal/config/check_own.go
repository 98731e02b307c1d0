package config

import (
	"fmt"
	"slices"

	"tidegate/internal/policy"
	"tidegate/internal/protocols"
)

// ownOptions checks the tables of listeners and upstreams.
func (v *validator) ownOptions() {
	for path, of := range v.owners {
		var speaks []string
		switch of := of.(type) {
		case *Listener:
			speaks = of.Protocols
		case *Upstream:
			speaks = []string{of.Protocol}
		}
		for _, table := range tablesOf(of) {
			key := child(path, table)
			v.checkOptions((*of.own())[table], key)
			if !slices.ContainsFunc(speaks, func(name string) bool {
				d := protocols.Find(name)
				return d != nil && d.Table == table
			}) {
				v.fault(key, nil, "no such table, or a protocol that uses it: "+enumerate(speaks)+" does not")
			}
		}
	}
}

// channels warns about listeners that grant ENet's players channels that their servers do not have.
func (v *validator) channels() {
	for i := range v.Listeners {
		l := &v.Listeners[i]
		r := slices.IndexFunc(v.Routes, func(r Route) bool { return r.Name == l.Route })
		if r < 0 || v.Routes[r].Mode.Is(policy.ModeRelay) || !slices.Contains(l.Protocols, "enet") {
			continue
		}
		u := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == v.Routes[r].Upstream })
		if u < 0 || v.Upstreams[u].Protocol != "enet" {
			continue
		}
		key := child(child(item("listener", i), "enet"), "channels")
		granted, asked := channelsOf(l.Own.Over(v.Options)), channelsOf(v.Upstreams[u].Own.Over(v.Options))
		if granted > asked && v.source.has(key) {
			v.warn(key, granted, fmt.Sprintf("at most %d, or a larger enet.channels for %s: messages of further channels "+
				"go to channel 0 of its servers", asked, v.where(item("upstream", u))))
		}
	}
}

func channelsOf(o Options) int { return o["enet"].(*protocols.ENetSettings).Channels }
