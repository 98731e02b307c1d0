package setup

import (
	"fmt"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay"
)

func TestProtocolsGoByTheirNames(t *testing.T) {
	for _, d := range known() {
		if got := build(d.Name, config.Default(), nil, registry.Use{Queue: 1 << 20}).Spec().Name; got != d.Name {
			t.Errorf("%s calls itself %s", d.Name, got)
		}
	}
}

func TestTraits(t *testing.T) {
	all := Traits()
	wanted := map[string]config.Traits{
		"raknet":      {Ordered: true, Sequenced: true, Reliable: true, Pings: true},
		"bedrock":     {Ordered: true, Sequenced: true, Reliable: true, Pings: true},
		"riptide-2.0": {Reliable: true, IDs: true},
		"riptide-2.2": {Reliable: true, IDs: true, Reports: true},
		"rudp":        {Sequenced: true, Reports: true, Joins: true},
		"enet":        {Ordered: true, Sequenced: true, Reliable: true},
		"rtype":       {Closed: true},
		"rtype-0.0.1": {Closed: true},
		"rtype-16":    {Closed: true},
		"rtype-32":    {Closed: true},
		"rtype-final": {Closed: true},
		Opaque:        {Closed: true, Opaque: true},
		Edge:          {Ordered: true, Reliable: true, Opaque: true},
	}
	for name, got := range all {
		want, ok := wanted[name]
		if !ok {
			t.Errorf("%s: want a row in this test", name)
		}
		if !got.Server || !got.Client || got.Ordered != want.Ordered || got.Sequenced != want.Sequenced ||
			got.Reliable != want.Reliable || got.IDs != want.IDs || got.Reports != want.Reports || got.Joins != want.Joins ||
			got.Closed != want.Closed ||
			got.Pings != want.Pings || got.Opaque != want.Opaque {
			t.Errorf("%s: %+v", name, got)
		}
	}
	opens := func(name string, b byte) bool { openers := all[name].Openers; return openers.Has(b) }
	if !opens("rtype", 3) || !opens("riptide-2.0", 3) || opens("riptide-2.2", 3) {
		t.Error("want a lone byte 3 to open R-Type and Riptide 2.0")
	}
}

// TestStrongestEvidenceFirst checks the order of protocols that would accept datagrams of RakNet or RUDP listed after
// them.
func TestStrongestEvidenceFirst(t *testing.T) {
	got := byEvidence([]string{"riptide-2.2", "rtype", "rudp", "bedrock", "raknet", "riptide-2.0"})
	want := []string{"bedrock", "raknet", "rudp", "riptide-2.2", "rtype", "riptide-2.0"}
	if !slices.Equal(got, want) {
		t.Errorf("asked in the order %v, want %v", got, want)
	}
}

// TestTranslation checks that payloads are translated as the route declares, without allocations.
func TestTranslation(t *testing.T) {
	c := loaded(t, "testdata/dialects.toml")
	l := &Settings(c, 1, NewSecrets()).Listeners[0]
	old, now := l.Protocols[0], l.Route.Upstream.Protocol
	translator := l.Route.Bridge.Translator
	if translator(old, old) != nil || translator(build("raknet", c, nil, registry.Use{}), now) != nil {
		t.Error("want a translation only between two dialects")
	}
	up := translator(old, now)
	dst := make([]byte, 0, 64)
	for _, row := range []struct {
		m    codec.Message
		made bridge.Translation
		size int
	}{
		{codec.Message{ID: 7, HasID: true, Payload: []byte{1, 2, 3}}, bridge.Translated, 3},
		{codec.Message{ID: 7, HasID: true, Payload: []byte{1}}, bridge.Untranslatable, 0},
		{codec.Message{ID: 8, HasID: true, Payload: []byte{1}}, bridge.Undeclared, 0},
	} {
		payload, _, made := up.Translate(dst, row.m)
		if made != row.made || len(payload) != row.size {
			t.Errorf("%x of ID %d: %d with %d bytes, want %d with %d", row.m.Payload, row.m.ID, made, len(payload),
				row.made, row.size)
		}
	}
	payload, pad, _ := up.Translate(dst, codec.Message{ID: 7, HasID: true, Payload: []byte{1, 2, 3}})
	if pad != 7 || payload[0]&1 != 1 {
		t.Errorf("%x without its last %d bits, want 17 bits that begin with a set one", payload, pad)
	}
	m := codec.Message{ID: 7, HasID: true, Payload: []byte{1, 2, 3}}
	if n := allocs.PerRun(100, func() { up.Translate(dst, m) }); n > 0 {
		t.Errorf("%v allocations a message", n)
	}
}

func TestUndeclaredMessagesPass(t *testing.T) {
	c := loaded(t, "testdata/dialects.toml")
	c.Routes[0].Undeclared = "pass"
	l := &Settings(c, 1, NewSecrets()).Listeners[0]
	up := l.Route.Bridge.Translator(l.Protocols[0], l.Route.Upstream.Protocol)
	if _, _, made := up.Translate(nil, codec.Message{ID: 8, HasID: true}); made != bridge.Passed {
		t.Errorf("an undeclared message: %d", made)
	}
}

// TestHealthOfEdges asks servers over HTTP where NetherNet's joins go to them: the newest answer no ping of RakNet.
func TestHealthOfEdges(t *testing.T) {
	for _, tt := range []struct {
		listener, mode, upstream string
		want                     relay.CheckBy
	}{
		{`"bedrock", "nethernet"`, "relay", "bedrock", relay.CheckHTTP},
		{`"bedrock", "nethernet"`, "terminate", "bedrock", relay.CheckPing},
		{`"bedrock", "nethernet"`, "terminate", "nethernet", relay.CheckHTTP},
		{`"bedrock"`, "terminate", "nethernet", relay.CheckHTTP},
		{`"bedrock"`, "relay", "bedrock", relay.CheckPing},
	} {
		c, _, err := Parse("t.toml", fmt.Appendf(nil, `
[[listener]]
name = "a"
address = "127.0.0.1:19132"
protocols = [%s]
route = "a"
[[route]]
name = "a"
upstream = "a"
mode = "%s"
[[upstream]]
name = "a"
protocol = "%s"
servers = ["127.0.0.1:19142"]
`, tt.listener, tt.mode, tt.upstream))
		if err != nil {
			t.Fatal(err)
		}
		if by := Settings(c, 1, NewSecrets()).Listeners[0].Route.Upstream.Checks.By; by != tt.want {
			t.Errorf("%+v: checks by %v", tt, by)
		}
	}
}
