package setup

import (
	"slices"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
)

// mapOf returns a route's map. A number without a width is a byte at servers without IDs, and at players if none of the
// route's has IDs.
func mapOf(c *config.Config, r *config.Route) []bridge.Row {
	hasIDs := func(name string) bool { return byName(name).Default().Spec().IDs == codec.IDBeside }
	var players, servers bool
	for i := range c.Listeners {
		players = players || c.Listeners[i].Route == r.Name && slices.ContainsFunc(c.Listeners[i].Protocols, hasIDs)
	}
	for i := range c.Upstreams {
		servers = servers || c.Upstreams[i].Name == r.Upstream && hasIDs(c.Upstreams[i].Protocol)
	}
	form := func(f config.Form, ids bool) policy.Form {
		if ids {
			return f.Value()
		}
		return f.Value().AsByte()
	}
	all := make([]bridge.Row, 0, len(r.Map))
	for i := range r.Map {
		from := &r.Map[i]
		row := bridge.Row{
			Client: form(from.Client, players), Server: form(from.Server, servers), From: from.From.Value(),
			Channel: from.Channel,
		}
		if from.Mode != "" {
			row.Mode = new(codec.Mode(from.Mode.Value()))
		}
		all = append(all, row)
	}
	return all
}
