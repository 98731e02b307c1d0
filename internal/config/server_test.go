package config

import (
	"reflect"
	"strings"
	"testing"
)

// TestServers: addresses and tables mix.
func TestServers(t *testing.T) {
	text := strings.Replace(valid, `servers = ["127.0.0.1:19132"]`,
		`servers = ["10.0.0.5:19132", { address = "10.0.0.6:19132", weight = 2 }, { max_sessions = 3, address = "[::1]:1" }]`, 1)
	c, _, err := Parse("t.toml", []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.0.0.5:19132", "10.0.0.6:19132", "[::1]:1"}
	var got []string
	for _, s := range c.Upstreams[0].Servers {
		got = append(got, s.String())
	}
	weights := [3][2]int{}
	for i, s := range c.Upstreams[0].Servers {
		weights[i] = [2]int{s.Weight, s.MaxSessions}
	}
	if !reflect.DeepEqual(got, want) || weights != [3][2]int{{1, 0}, {2, 0}, {1, 3}} {
		t.Errorf("servers %v, weights and bounds %v", got, weights)
	}
}
