package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestFleetServersAreSearched asserts that the list of servers is searched and bounded, and can have only servers with
// different states at different nodes.
func TestFleetServersAreSearched(t *testing.T) {
	f := newFake("")
	f.FleetServers = func() (all []FleetServer) {
		for i := range 20_000 {
			one := FleetServer{Upstream: "arena", Address: fmt.Sprintf("10.0.0.1:%d", i+1), Nodes: []FleetServerNode{
				{"ams1", "up", 3}, {"ams2", "up", 1},
			}}
			if i%10_000 == 7 {
				one.Nodes[1].State = "down"
			}
			all = append(all, one)
		}
		return append(all, FleetServer{Upstream: "Duel", Address: "10.0.0.2:1"}) // drained, and unknown to all nodes
	}
	for query, wanted := range map[string][]string{
		"limit=2":                    {`[{"upstream":"arena","address":"10.0.0.1:1"`, `"total":20001,"differing":2}`},
		"search=duel&limit=2":        {`"address":"10.0.0.2:1"`, `"total":1,"differing":0}`},
		"search=ARENA&differ=true":   {`[{"upstream":"arena","address":"10.0.0.1:8"`, `:10008"`, `"differing":2}`},
		"differ=true&limit=1":        {`10.0.0.1:8"`, `"state":"down","sessions":1}]}],"total":20001,"differing":2}`},
		"search=nothing&differ=true": {`{"servers":[],"total":0,"differing":0}`},
		"":                           {`10.0.0.1:1"`, `10.0.0.2:1"`, `"total":20001,"differing":2}`},
	} {
		want(t, f.ask(http.MethodGet, "/api/v1/fleet/servers?"+query, ""), 200, wanted...)
	}
	for _, query := range []string{"limit=0", "limit=10001", "limit=x", "differ=yes", "sort=address"} {
		want(t, f.ask(http.MethodGet, "/api/v1/fleet/servers?"+query, ""), 400)
	}
}

// TestFleetBansAreSearched asserts that the list of bans is searched and bounded, the youngest first.
func TestFleetBansAreSearched(t *testing.T) {
	f := newFake("")
	since := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	f.FleetBans = func(context.Context) ([]FleetBan, error) {
		return []FleetBan{
			{WhyBan{Prefix: "192.0.2.0/24", Reason: "Cheats", Author: "ann", Since: since}, "ams1"},
			{WhyBan{Prefix: "198.51.100.0/24", Author: "bob", Since: since.Add(time.Hour)}, "ams2"},
		}, nil
	}
	want(t, f.ask(http.MethodGet, "/api/v1/fleet/bans", ""), 200, `{"bans":[{"prefix":"198.51.100.0/24"`, `"total":2}`)
	want(t, f.ask(http.MethodGet, "/api/v1/fleet/bans?limit=1", ""), 200, `"node":"ams2"}],"total":2}`)
	for _, search := range []string{"cheats", "ANN", "ams1", "192.0"} {
		want(t, f.ask(http.MethodGet, "/api/v1/fleet/bans?search="+search, ""), 200, `"reason":"Cheats"`, `"total":1}`)
	}
	want(t, f.ask(http.MethodGet, "/api/v1/fleet/bans?search=nobody", ""), 200, `{"bans":[],"total":0}`)
	want(t, f.ask(http.MethodGet, "/api/v1/fleet/bans?limit=-1", ""), 400)
	f.FleetBans = func(context.Context) ([]FleetBan, error) { return nil, errors.New("the fleet does not answer") }
	want(t, f.ask(http.MethodGet, "/api/v1/fleet/bans", ""), 500, "does not answer")
}
