package relay

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/internal/testkit/oldrecords"
	"tidegate/proxy/relay/saved"
)

// goldenMessages is the number of messages before a session is saved, and again afterwards.
const goldenMessages = 30

// goldenWorld is a Relay with its peers as one release saved it. Its JSON names are fixed.
type goldenWorld struct {
	Shared   []byte          `json:"shared"`
	Sessions []goldenSession `json:"sessions"`
	Player   []byte          `json:"player"` // the record of its connection
	Server   goldenPeer      `json:"server"`
	Heard    map[string]int  `json:"heard"` // by the player
}

type goldenSession struct {
	Record  []byte       `json:"record"`
	Sockets []goldenPeer `json:"sockets"`
}

type goldenPeer struct {
	Addr   netip.AddrPort `json:"addr"`
	Peer   netip.AddrPort `json:"peer"`
	Record []byte         `json:"record,omitempty"` // of the connection, if this is the server's
}

// goldenPair is a scene whose records are kept.
type goldenPair struct {
	name             string
	client, upstream member
	relayed          bool
}

func goldenPairs() (all []goldenPair) {
	family := udpMembers(oneDialect)
	for _, m := range family {
		all = append(all, goldenPair{name: m.String(), client: m, upstream: m})
	}
	return append(all,
		goldenPair{name: "bridged", client: family[0], upstream: family[len(family)-2]},
		goldenPair{name: "relayed", client: family[0], upstream: family[0], relayed: true})
}

// TestRecords imports the sessions that earlier releases have saved, and plays on. Their reliable messages arrive once.
func TestRecords(t *testing.T) {
	for _, p := range goldenPairs() {
		oldrecords.Each(t, p.name, func() goldenWorld { return p.save(t) }, p.playOn)
	}
}

// world returns the scene without players.
func (g *goldenPair) world(t *testing.T) *world {
	route := matrixRoute(g.client.Protocol, g.upstream.Protocol)
	if g.relayed {
		route.Mode = policy.ModeRelay
	}
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, g.client.Protocol, route)
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		switch ev.Kind {
		case codec.Asked:
			p.conn.Admit(now, 101)
			if g.upstream.Spec().Closed { // its client counts as connected once it has heard a message
				_ = p.conn.Send(now, codec.Message{Payload: []byte{0, 0, 0, 0, 1}})
			}
		case codec.Received:
			_ = p.conn.Send(now, ev.Message)
		}
	}
	return w
}

// talk lets the player send messages from a number on.
func (g *goldenPair) talk(w *world, p *player, from int) {
	for i := range goldenMessages {
		w.say(&p.peer, g.client, g.upstream, w.settings.Listeners[0].Route, from+i)
		w.Run(5 * time.Millisecond)
	}
}

// save plays the first half of a scene, and saves it.
func (g *goldenPair) save(t *testing.T) goldenWorld {
	t.Helper()
	w := g.world(t)
	p := w.connectFirst(g.client, g.upstream)
	w.Run(200 * time.Millisecond)
	w.SetWeather(simnet.Weather{Latency: 5 * time.Millisecond, Loss: 0.2})
	g.talk(w, p, 0)
	v := goldenWorld{
		Player: p.conn.Save(w.Now(), nil),
		Heard:  heard(t, &p.peer, g.client, g.upstream, w.settings.Listeners[0].Route),
	}
	shared, all := exportAll(w.proxy.relay, w.Now())
	v.Shared = shared
	for _, one := range all {
		session := goldenSession{Record: one.bytes}
		for _, s := range one.sockets {
			session.Sockets = append(session.Sockets, goldenPeer{Addr: s.Addr(), Peer: s.Peer()})
		}
		v.Sessions = append(v.Sessions, session)
	}
	server := w.servers[0].peers[0]
	v.Server = goldenPeer{
		Addr: serverAddr, Peer: w.servers[0].addrOf(server), Record: server.conn.Save(w.Now(), nil),
	}
	return v
}

// playOn restores the scene, and plays on.
func (g *goldenPair) playOn(t *testing.T, v *goldenWorld) {
	w := g.world(t)
	n, now := w.proxy, w.Now()
	var all []savedRecord
	for _, session := range v.Sessions {
		one := savedRecord{bytes: session.Record}
		for _, at := range session.Sockets {
			s := &simSocket{addr: at.Addr, peer: at.Peer}
			n.sockets[at.Addr] = s
			n.dialed++
			one.sockets = append(one.sockets, netio.Socket(s))
		}
		all = append(all, one)
	}
	importAll(t, n.relay, now, v.Shared, all)
	w.players++
	p := &player{addr: playerAddr(0), said: true}
	server := &peer{react: w.servers[0].react}
	var err, failed error
	p.conn, err = g.client.Restore(now, nil, v.Player)
	server.conn, failed = g.upstream.Restore(now, nil, v.Server.Record)
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	w.servers[0].peers, w.servers[0].byAddr[v.Server.Peer] = []*peer{server}, server
	w.Add(w.playerNode(p), p.addr)
	g.talk(w, p, goldenMessages)
	w.Run(5 * time.Second)
	seen := heard(t, &p.peer, g.client, g.upstream, w.settings.Listeners[0].Route)
	promised, total := promiseOf(g.client, g.upstream), 0
	for i := range 2 * goldenMessages {
		times := seen[string(body(i))] + v.Heard[string(body(i))]
		total += min(times, 1)
		if promised == exactlyOnce && times != 1 || times > 1 {
			t.Errorf("message %d was echoed %d times", i, times)
		}
	}
	if total < goldenMessages {
		t.Errorf("only %d of %d messages were echoed", total, 2*goldenMessages)
	}
	if p.gone() || server.gone() {
		t.Error("the session has ended")
	}
	for e := range n.relay.table.All {
		if d := n.relay.describe(w.Now(), e); d.Age < time.Second || d.FromClient.Messages < goldenMessages/2 {
			t.Errorf("the session is %+v", d)
		}
	}
	if n.relay.table.Len() != 1 {
		t.Errorf("%d sessions", n.relay.table.Len())
	}
}

// TestOddStrings reads records back whose strings are no UTF-8: strangers choose some of them.
func TestOddStrings(t *testing.T) {
	n := 0
	for kind, of := range record.Types() {
		v, read := reflect.New(of), reflect.New(of)
		n += spoil(v.Elem())
		b := record.Append(nil, v.Interface())
		if err := record.Read(b, read.Interface()); err != nil || !bytes.Equal(record.Append(nil, read.Interface()), b) {
			t.Errorf("%s: %+v is read as %+v, %v", kind, v, read, err)
		}
	}
	if n < 20 {
		t.Errorf("only %d strings", n)
	}
}

// spoil puts a byte that is no UTF-8 into all strings of a record, and returns their number.
func spoil(v reflect.Value) (n int) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString("\xff")
		return 1
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return spoil(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return spoil(v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				n += spoil(v.Field(i))
			}
		}
	}
	return n
}

// secretName matches the names of fields that may be secrets of a session.
var secretName = regexp.MustCompile(`(?i)secret|key$|cookie|password|connectid|identity|guid|token|seed`)

// TestSecretsAreHidden checks that no record shows a field whose name sounds like a secret.
func TestSecretsAreHidden(t *testing.T) {
	types := record.Types()
	if len(types) < 12 {
		t.Errorf("only the kinds %v are registered", slices.Sorted(maps.Keys(types)))
	}
	n := 0
	for kind, of := range types {
		hidden(t, kind, of, &n)
	}
	hidden(t, "session body", reflect.TypeFor[saved.Terminated](), &n)
	if n < 10 {
		t.Errorf("only %d fields are secrets", n)
	}
}

func hidden(t *testing.T, path string, of reflect.Type, n *int) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		hidden(t, path, of.Elem(), n)
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			switch at := path + "." + f.Name; {
			case !f.IsExported() && !f.Anonymous: // no record has it
			case record.IsSecret(f):
				*n++
			case secretName.MatchString(f.Name):
				t.Errorf("%s is shown to operators; give it the tag secret", at)
			default:
				hidden(t, at, f.Type, n)
			}
		}
	}
}
