package relay

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/admission"
)

// Some of RakNet's offline messages, by their first byte, and parts of their content.
const (
	openRequest1, openReply1 = 0x05, 0x06
	openRequest2, openReply2 = 0x07, 0x08

	raknetMagic = "00ffff00fefefefefdfdfdfd12345678"
	gameGUID    = "000660c48509a6ae"
)

// wiretap records the datagrams from the listener to its players, and datagrams to the servers.
type wiretap struct {
	toClients, toServers [][]byte
	answer               func(to netip.AddrPort, request []byte) // answers a datagram for a server; may be nil
}

func (w *world) wiretap() *wiretap {
	tap := new(wiretap)
	w.SetTap(func(from, to netip.AddrPort, datagram []byte) {
		switch {
		case from == listenerAddr:
			tap.toClients = append(tap.toClients, bytes.Clone(datagram))
		case to == serverAddr || to == secondAddr:
			tap.toServers = append(tap.toServers, bytes.Clone(datagram))
			if tap.answer != nil {
				tap.answer(from, datagram)
			}
		}
	})
	return tap
}

// stock replaces the first server by raw answers, in hex, to requests 1 and 2.
func (w *world) stock(tap *wiretap, said map[byte]string) {
	w.servers[0].down = true
	tap.answer = func(to netip.AddrPort, request []byte) {
		if answer, err := hex.DecodeString(said[request[0]]); err == nil && len(answer) > 0 {
			w.Inject(time.Millisecond, serverAddr, to, answer)
		}
	}
}

func beginning(with byte, list [][]byte) (found [][]byte) {
	for _, b := range list {
		if b[0] == with {
			found = append(found, b)
		}
	}
	return found
}

func raknetWorld(t *testing.T, clients raknet.Options, change func(*Route)) *world {
	route := defaultRoute(raknet6())
	if change != nil {
		change(route)
	}
	return newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet.New(clients), route)
}

const stockReply1 = "06" + raknetMagic + gameGUID + "00" + "05d4"

// TestRefusalsAreTheServersOwn asserts that a server's offline refusal reaches the client byte for byte, without a
// grant before it. Stock clients ignore most refusals after the grant.
func TestRefusalsAreTheServersOwn(t *testing.T) {
	for _, mode := range []raknet.CookieMode{raknet.CookiesPrivate, raknet.CookiesNone} {
		for _, c := range []struct {
			name, refusal string
			to            byte // the request that it answers
			want          codec.Reason
		}{
			{"attempt failed", "11" + raknetMagic + gameGUID, openRequest2, codec.NoConnection},
			{"already connected", "12" + raknetMagic + gameGUID, openRequest2, codec.AlreadyConnected},
			{"full", "14" + raknetMagic + gameGUID, openRequest2, codec.ServerFull},
			{"banned", "17" + raknetMagic + gameGUID, openRequest1, codec.Banned},
			{"too soon", "1a" + raknetMagic + gameGUID, openRequest2, codec.TooSoon},
			{"version 7", "1907" + raknetMagic + gameGUID, openRequest1, codec.Incompatible},
		} {
			w := raknetWorld(t, raknet.Options{Cookies: mode}, nil)
			tap := w.wiretap()
			said := map[byte]string{openRequest1: stockReply1}
			said[c.to] = c.refusal
			w.stock(tap, said)
			p := w.join(codec.Hello{Data: []byte("secret")})
			w.await("refused", 6*time.Second, p.gone)
			if last := tap.toClients[len(tap.toClients)-1]; hex.EncodeToString(last) != c.refusal {
				t.Errorf("%s: the client was told %x, want %s", c.name, last, c.refusal)
			}
			if len(beginning(openReply2, tap.toClients)) > 0 {
				t.Errorf("%s: the client was granted a connection before the server had decided", c.name)
			}
			if got := p.find(codec.Disconnected).Reason; got != c.want {
				t.Errorf("%s: refused with %v, want %v", c.name, got, c.want)
			}
			w.Run(20 * time.Millisecond)
			if n := w.proxy.relay.table.Len(); n != 0 {
				t.Errorf("%s: %d sessions are kept", c.name, n)
			}
		}
	}
}

// TestGrantIsTheServers asserts that the second reply has the GUID of the server that granted. Stock clients take the
// server's GUID from this reply. The password follows.
func TestGrantIsTheServers(t *testing.T) {
	for _, mode := range []raknet.CookieMode{raknet.CookiesPrivate, raknet.CookiesNone} {
		w := raknetWorld(t, raknet.Options{Cookies: mode}, nil)
		w.servers[0].protocol = raknet.New(raknet.Options{GUID: 0x660c48509a6ae})
		tap := w.wiretap()
		w.connect(codec.Hello{Data: []byte("secret"), Identity: 77})
		grants := beginning(openReply2, tap.toClients)
		if len(grants) != 1 || hex.EncodeToString(grants[0][17:25]) != gameGUID {
			t.Errorf("granted by %x, want once and in the name of %s", grants, gameGUID)
		}
		asked := w.servers[0].peers[0].find(codec.Asked)
		if string(asked.Payload) != "secret" || asked.Identity != 77 {
			t.Errorf("the server was asked with %q by %d", asked.Payload, asked.Identity)
		}
	}
}

// TestPasswordIsRefusedOnline asserts that a server can refuse a password after its grant.
func TestPasswordIsRefusedOnline(t *testing.T) {
	w := raknetWorld(t, raknet.Options{}, nil)
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Close(now, codec.Goodbye{Reason: codec.InvalidPassword})
		}
	}
	tap := w.wiretap()
	p := w.join(codec.Hello{Data: []byte("wrong")})
	w.await("refused", 5*time.Second, p.gone)
	grants := len(beginning(openReply2, tap.toClients))
	if got := p.find(codec.Disconnected).Reason; got != codec.InvalidPassword || grants != 1 {
		t.Errorf("refused with %v after %d grants", got, grants)
	}
}

// TestWaitingClientIsOneSession asserts that a client has one session, and one connection to a slow server, though it
// repeats its requests.
func TestWaitingClientIsOneSession(t *testing.T) {
	w := raknetWorld(t, raknet.Options{}, nil)
	w.SetPath(serverAddr, upstreamSocketAddr(0), simnet.Weather{Latency: time.Second})
	tap := w.wiretap()
	p := w.join(codec.Hello{})
	w.Run(1900 * time.Millisecond) // the second reply is still under way
	asked := len(beginning(openRequest2, tap.toServers))
	grants := len(beginning(openReply2, tap.toClients))
	if n := w.proxy.relay.counters.Opened; n != 1 || w.proxy.dialed != 1 || grants > 0 {
		t.Errorf("%d sessions, %d connections, granted %d times, want 1, 1 and 0", n, w.proxy.dialed, grants)
	}
	w.await("connected", 6*time.Second, func() bool { return p.find(codec.Connected) != nil })
	if n := w.proxy.relay.counters.Opened; n != 1 || w.proxy.dialed != 1 || asked > 4 {
		t.Errorf("%d sessions and %d connections, asked %d times", n, w.proxy.dialed, asked)
	}
}

// TestServerThatDoesNotAnswer asserts that the client hears within 6 s that the attempt failed, or gets the next
// server.
func TestServerThatDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		closed bool // the host reports the closed port
		second bool // there is another server
		least  time.Duration
	}{
		{"silent", false, false, 4 * time.Second},
		{"closed", true, false, 4 * time.Second},
		{"silent, and another", false, true, 3 * time.Second},
		{"closed, and another", true, true, 0},
	} {
		w := raknetWorld(t, raknet.Options{}, func(r *Route) {
			if c.second {
				r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
			}
		})
		w.settings.HandshakeTimeout = 10 * time.Second
		w.servers[0].down = true
		tap := w.wiretap()
		tap.answer = func(from netip.AddrPort, _ []byte) {
			if socket := w.proxy.sockets[from]; c.closed && socket.peer == serverAddr {
				w.After(time.Millisecond, func() { w.proxy.relay.Failed(w.Now(), socket, netio.ErrRefused) })
			}
		}
		begin := w.Now()
		p := w.join(codec.Hello{Data: []byte("secret")})
		w.await("told", 6*time.Second, func() bool { return p.gone() || p.find(codec.Connected) != nil })
		if took := w.Now().Sub(begin); took < c.least || took > c.least+1500*time.Millisecond {
			t.Errorf("%s: told after %v, want %v or a little more", c.name, took, c.least)
		}
		if last := tap.toClients[len(tap.toClients)-1]; !c.second && last[0] != 0x11 {
			t.Errorf("%s: told %x, want CONNECTION_ATTEMPT_FAILED", c.name, last)
		}
		if connected := p.find(codec.Connected) != nil; connected != c.second {
			t.Errorf("%s: connected %v", c.name, connected)
		}
		if c.second && string(w.servers[1].peers[0].find(codec.Asked).Payload) != "secret" {
			t.Errorf("%s: the second server was not told the password", c.name)
		}
	}
}

// TestServerIsLostAfterItsGrant asserts that another server takes the client and gets the password. The client sends
// the password before or after that server's grant.
func TestServerIsLostAfterItsGrant(t *testing.T) {
	for _, latency := range []time.Duration{5 * time.Millisecond, 600 * time.Millisecond} {
		w := raknetWorld(t, raknet.Options{}, func(r *Route) {
			r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
		})
		w.SetPath(secondAddr, upstreamSocketAddr(1), simnet.Weather{Latency: latency})
		tap := w.wiretap()
		p := w.join(codec.Hello{Data: []byte("secret")})
		w.await("granted", time.Second, func() bool { return len(beginning(openReply2, tap.toClients)) == 1 })
		w.SetPath(p.addr, listenerAddr, simnet.Weather{Loss: 1}) // the connection request comes half a second later
		w.Run(50 * time.Millisecond)
		w.proxy.relay.Failed(w.Now(), w.proxy.sockets[upstreamSocketAddr(0)], netio.ErrRefused)
		w.SetPath(p.addr, listenerAddr, simnet.Weather{Latency: time.Millisecond})
		w.await("connected", 6*time.Second, func() bool { return p.find(codec.Connected) != nil })
		if asked := w.servers[1].peers[0].find(codec.Asked); string(asked.Payload) != "secret" {
			t.Errorf("%v: the second server was asked with %q", latency, asked.Payload)
		}
		if n := len(beginning(openReply2, tap.toClients)); n != 1 {
			t.Errorf("%v: the client was granted %d connections", latency, n)
		}
	}
}

// TestSilentClientIsNotTheServersFault covers a client that falls silent after its grant. The server does not count
// as failed, and the proxy sends it nothing more for that client.
func TestSilentClientIsNotTheServersFault(t *testing.T) {
	w := raknetWorld(t, raknet.Options{}, nil)
	w.settings.HandshakeTimeout = 10 * time.Second
	tap := w.wiretap()
	silent := w.join(codec.Hello{})
	w.await("granted", time.Second, func() bool { return len(beginning(openReply2, tap.toClients)) == 1 })
	w.SetPath(silent.addr, listenerAddr, simnet.Weather{Loss: 1})
	w.Run(11 * time.Second)
	if n := w.proxy.relay.table.Len(); n != 0 {
		t.Errorf("%d sessions are kept", n)
	}
	for _, b := range tap.toServers {
		if b[0] != openRequest1 && b[0] != openRequest2 {
			t.Errorf("the server was told %x: it bans an address that begins with anything but a connection request", b)
		}
	}
	w.connect(codec.Hello{})
}

// TestForgedRequestsAreBounded covers RakNet without cookies, where every request may be forged. Half-open sessions
// stay within their limit. Each request asks the server at most once. A victim gets at most three times the bytes
// that were sent with its address.
func TestForgedRequestsAreBounded(t *testing.T) {
	w := raknetWorld(t, raknet.Options{Cookies: raknet.CookiesNone}, nil)
	asked, told := 0, make(map[netip.AddrPort]int)
	most := 0
	w.SetTap(func(from, to netip.AddrPort, datagram []byte) {
		switch {
		case from == listenerAddr:
			told[to] += admission.WireSize(to, len(datagram))
		case to == serverAddr && datagram[0] == openRequest2:
			asked++
		}
		most = max(most, w.proxy.relay.table.Len())
	})
	const forged = 500
	request, _ := hex.DecodeString("07" + raknetMagic + "04f5fffffe1e6105d40000000000000000")
	for i := range forged {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i), byte(i >> 8)}), 5000)
		request[len(request)-1], request[len(request)-2] = byte(i), byte(i>>8)+1
		w.Inject(time.Duration(i)*time.Millisecond, from, listenerAddr, request)
	}
	w.Run(time.Second)
	if limit := w.settings.Limits.HalfOpen; most > limit || asked > forged || most < limit/2 {
		t.Errorf("%d sessions at once, of %d, and %d requests to the server for %d forged ones", most, limit, asked, forged)
	}
	for victim, bytes := range told {
		if sent := admission.WireSize(victim, len(request)); bytes > admission.Amplification*sent {
			t.Errorf("%s was sent %d bytes for %d", victim, bytes, sent)
		}
	}
	w.connect(codec.Hello{}) // players can still join
}

// TestOthersAreGrantedAtOnce asserts that the proxy grants at once in two cases: it asks the server later, or the
// server speaks another protocol.
func TestOthersAreGrantedAtOnce(t *testing.T) {
	proofFirst := defaultRoute(raknet6())
	proofFirst.Admit = policy.ProofFirst
	for name, route := range map[string]*Route{"proof first": proofFirst, "to riptide": defaultRoute(riptide22())} {
		w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6(), route)
		w.servers[0].down = true
		tap := w.wiretap()
		w.join(codec.Hello{})
		granted := func() bool { return len(beginning(openReply2, tap.toClients)) == 1 }
		w.await(name+": granted", 100*time.Millisecond, granted)
	}
}
