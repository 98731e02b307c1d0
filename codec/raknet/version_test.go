package raknet

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
)

// TestVersionOfTheClient: a server knows the version of its client in every cookie mode, and a client keeps it.
func TestVersionOfTheClient(t *testing.T) {
	for _, mode := range []CookieMode{CookiesPrivate, CookiesNone, CookiesActive} {
		for _, version := range []uint8{6, 8, 10, 11} {
			l := newLinkOf(t, New(Options{DialVersion: 11, KeepVersion: true, Versions: []uint8{11, 10, 8, 6}}))
			l.client = l.p.Dial(l.now, linkServer, codec.Hello{Version: version}).(*Conn)
			l.p = New(Options{Cookies: mode, Versions: []uint8{11, 10, 8, 6}}) // the server's
			connect(t, l)
			if got := l.server.Version(); got != version || l.server.longList != (version >= firstLongList) {
				t.Errorf("cookies %v: a client of version %d counts as one of %d", mode, version, got)
			}
		}
	}
}

// TestVersionOfferedToServers: only a server that takes other versions than its own hears the client's.
func TestVersionOfferedToServers(t *testing.T) {
	for _, test := range []struct {
		library  string
		versions []uint8
		want     bool
		parts    int
	}{
		{"any", nil, false, rakLibParts},
		{"any", bedrockVersions, false, rakLibParts}, {"any", []uint8{8, 9, 10, 11}, true, rakLibParts},
		{"go-raknet", []uint8{8, 11}, false, rakLibParts}, {"cloudburst", bedrockVersions, true, rakLibParts},
		{"raklib", bedrockVersions, true, rakLibParts}, {"stock", bedrockVersions, true, math.MaxInt},
	} {
		o := Bedrock()
		o.Versions = test.versions
		o.Suit(test.library)
		if o.KeepVersion != test.want || o.MaxParts != test.parts {
			t.Errorf("%s, %v: keeps the version %v, %d parts", test.library, test.versions, o.KeepVersion, o.MaxParts)
		}
	}
}

// TestPartsForServers: a server of version 6 is C++ RakNet, and takes messages of any number of parts.
func TestPartsForServers(t *testing.T) {
	o := Options{}
	if o.Suit("raklib"); o.MaxParts != rakLibParts {
		t.Errorf("%d parts to RakLib", o.MaxParts)
	}
	for version, want := range map[uint8]error{6: nil, 11: codec.ErrTooLarge} {
		l := newConnected(t, Options{DialVersion: version, MaxParts: 10})
		m := codec.Message{Mode: codec.ReliableOrdered, Payload: gamePayload(20_000)}
		if err := l.client.Send(l.now, m); !errors.Is(err, want) {
			t.Errorf("version %d: %v, want %v", version, err, want)
		}
		if err := l.server.Send(l.now, m); err != nil {
			t.Errorf("to a client: %v", err)
		}
	}
}

// TestWrongPasswordIsToldOnce: a goodbye behind the refusal is another event for a stock client's game.
func TestWrongPasswordIsToldOnce(t *testing.T) {
	for _, version := range []uint8{6, 11} {
		l := newLink(t, Options{DialVersion: version})
		l.exchange()
		var sent [][]byte
		l.drop = func(toServer bool, b []byte) bool {
			if !toServer {
				sent = append(sent, bytes.Clone(b))
			}
			return false
		}
		l.server.Close(l.now, codec.Goodbye{Reason: codec.InvalidPassword})
		l.exchange()
		l.wait(4e9)
		if firstOnline(sent, idDisconnectionNotification) != nil || firstOnline(sent, idInvalidPassword) == nil {
			t.Errorf("version %d: %x, want the refusal alone", version, sent)
		}
		if got := ending(t, l.toServer); got != codec.InvalidPassword {
			t.Errorf("the server ended as %v", got)
		}
		if got := ending(t, l.toClient); got != codec.InvalidPassword {
			t.Errorf("the client ended as %v", got)
		}
	}
}

// TestMadeGUIDs have the top bit set.
func TestMadeGUIDs(t *testing.T) {
	for i := range byte(100) {
		if guid := guidFrom(&[32]byte{i}, nil); guid>>63 == 0 {
			t.Fatalf("GUID %x", guid)
		}
	}
}

// passes reports whether a gate lets a first request of a version up to linkServer.
func passes(p *Protocol, now time.Time, version uint8) bool {
	return p.PassUp(now, new(codec.Gate), linkServer, firstRequestOf(version)) == nil
}

func firstRequestOf(version uint8) []byte {
	return (&openConnectionRequest1{version: version, length: 1464}).append(nil)
}

// suited returns Bedrock for servers of a library.
func suited(library string) *Protocol {
	o := Bedrock()
	o.Suit(library)
	return New(o)
}

func refusalOf(version uint8) []byte { return (&incompatible{version: version, guid: 1}).append(nil) }

// letIn has a server let in a relayed client that has sent first requests of some versions.
func letIn(t *testing.T, p *Protocol, server netip.AddrPort, versions ...uint8) {
	var gate codec.Gate
	for _, version := range versions {
		if err := p.PassUp(linkStart, &gate, server, firstRequestOf(version)); err != nil {
			t.Fatal(err)
		}
	}
	p.PassDown(linkStart, &gate, server, (&openConnectionReply1{guid: 1, mtu: 1492}).append(nil))
	reply := openConnectionReply2{guid: 1, client: address{linkClient, 4}, mtu: 1492}
	if p.PassDown(linkStart, &gate, server, reply.append(nil)); gate != codec.GateOpen {
		t.Fatalf("gate %x, want it open", uint64(gate))
	}
}

// TestForgedRefusalOfARelay: a refusal in a server's name keeps no player out, where the server's version is known or
// has let players in, and elsewhere not for long.
func TestForgedRefusalOfARelay(t *testing.T) {
	for library, known := range map[string]bool{"go-raknet": true, "cloudburst": true, "raklib": true, "any": false} {
		p := suited(library)
		p.PassDown(linkStart, new(codec.Gate), linkServer, refusalOf(77))
		if passes(p, linkStart, 11) != known {
			t.Errorf("%s: version 11 passes behind a refusal: %v, want %v", library, !known, known)
		}
		if !passes(p, linkStart.Add(refusalLife), 11) {
			t.Errorf("%s: version 11 is kept out after %v", library, refusalLife)
		}
	}
	p := suited("any")
	letIn(t, p, linkServer, 11)
	for _, version := range []uint8{77, 10} {
		if p.PassDown(linkStart, new(codec.Gate), linkServer, refusalOf(version)); !passes(p, linkStart, 11) {
			t.Errorf("version %d, which was never let in, keeps out version 11, which was", version)
		}
	}
	p.PassDown(linkStart, new(codec.Gate), linkServer, refusalOf(11))
	if later := linkStart.Add(time.Hour); passes(p, later, 6) || !passes(p, later, 11) {
		t.Error("the server's own refusal does not last")
	}
}

// TestMixedRequests: a client with first requests of several versions does not tell which of them the server takes.
func TestMixedRequests(t *testing.T) {
	p := suited("any")
	letIn(t, p, linkServer, 11, 6, 11)
	if told := p.servers.know(linkServer); told.granted != 0 {
		t.Errorf("granted %b", told.granted)
	}
}

// TestForgedRefusalOfADial: a refusal in the name of a server that has let players in changes no request, if the server
// replies. Without a reply it counts.
func TestForgedRefusalOfADial(t *testing.T) {
	for _, silent := range []bool{false, true} {
		p := suited("any")
		connect(t, newLinkOf(t, p))
		l := newLinkOf(t, p)
		asked := make(map[uint8]bool)
		l.drop = func(toServer bool, b []byte) bool {
			var m openConnectionRequest1
			if toServer && m.parse(b) == nil {
				asked[m.version] = true
				return silent
			}
			return false
		}
		l.carry(l.client, true)
		_ = l.client.Receive(l.now, refusalOf(10))
		if l.wait(time.Second); asked[10] != silent {
			t.Errorf("silent server: %v; asked with version 10: %v", silent, asked[10])
		}
		if got := p.Dial(l.now, linkServer, codec.Hello{}).(*Conn).attempt.Version; got != 11 {
			t.Errorf("the next player's dial begins with version %d", got)
		}
	}
	l := newLinkOf(t, suited("go-raknet"))
	_ = l.client.Receive(l.now, refusalOf(10))
	if l.poll(); ending(t, l.toClient) != codec.Incompatible {
		t.Error("a server of one version is asked with another")
	}
}
