package nethernet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/transport/v5"
	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/webrtc/v4"

	wire "tidegate/codec/nethernet"
)

const (
	reliableLabel   = "ReliableDataChannel"
	unreliableLabel = "UnreliableDataChannel"
)

// patience bounds each wait for a peer, also on a machine that does much else.
const patience = 2 * time.Minute

// homes is a network of a machine with an interface for each address.
type homes struct {
	transport.Net
	addresses []string
}

func (h *homes) Interfaces() (all []*transport.Interface, _ error) {
	for i, address := range h.addresses {
		one := transport.NewInterface(net.Interface{Index: i + 1, MTU: 1500, Name: "eth" + fmt.Sprint(i), Flags: net.FlagUp})
		one.AddAddress(&net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(32, 32)})
		all = append(all, one)
	}
	return all, nil
}

// newPion returns a connection with the settings of NetherNet. It gathers on loopback alone, on an interface for each
// of the addresses, if there are any.
func newPion(t *testing.T, lite bool, addresses ...string) *webrtc.PeerConnection {
	t.Helper()
	var e webrtc.SettingEngine
	if len(addresses) > 0 {
		own, err := stdnet.NewNet()
		if err != nil {
			t.Fatal(err)
		}
		e.SetNet(&homes{own, addresses})
	}
	e.SetIncludeLoopbackCandidate(true)
	e.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	e.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	e.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	e.SetSCTPMaxMessageSize(wire.MaxFragment)
	e.SetLite(lite)
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(e)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	return pc
}

// describe sets a local description, waits for its candidates, and returns it with an identity.
func describe(pc *webrtc.PeerConnection, d webrtc.SessionDescription, key *ecdsa.PrivateKey) (string, error) {
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(d); err != nil {
		return "", err
	}
	<-gathered
	text := pc.LocalDescription().SDP
	parsed, err := wire.ParseDescription([]byte(text))
	if err != nil {
		return "", err
	}
	now := time.Now()
	identity, err := wire.ServerIdentity(key, now, now.Add(time.Minute), parsed.Fingerprints)
	return strings.Replace(text, "\r\nm=", "\r\na=identity:"+identity.Text()+"\r\nm=", 1), err
}

// accept verifies the identity of a description from the other end, which has signed its token with the key; nil: any.
// It returns the description as pion takes it.
func accept(text string, key *ecdsa.PublicKey) (string, error) {
	d, err := wire.ParseDescription([]byte(text))
	if err != nil {
		return "", err
	}
	identity, err := wire.ParseIdentity(d.Identity)
	if err != nil {
		return "", err
	}
	token, err := wire.ParseToken(identity.Token)
	if err != nil {
		return "", err
	}
	if key != nil && !token.Key.Equal(key) {
		return "", errors.New("another key")
	}
	if err := errors.Join(token.VerifyOwn(), identity.Verify(token.Key, d.Fingerprints)); err != nil {
		return "", err
	}
	return strings.Replace(text, "a=identity:"+d.Identity+"\r\n", "", 1), nil
}

// keys are the identities of both ends; nil: of a program that makes its own.
type keys struct{ client, server *ecdsa.PrivateKey }

func publicOf(key *ecdsa.PrivateKey) *ecdsa.PublicKey {
	if key == nil {
		return nil
	}
	return &key.PublicKey
}

func newKeys(t *testing.T) (k keys) {
	t.Helper()
	for _, to := range []**ecdsa.PrivateKey{&k.client, &k.server} {
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		*to = key
	}
	return k
}

// game is a server of pion that echoes each message, behind plain HTTP.
type game struct {
	t    *testing.T
	keys keys
	lite bool
	http netip.AddrPort
	// spoils alters an answer; nil: none does.
	spoils func(http.ResponseWriter, string) string

	mu     sync.Mutex
	offers []string
	states []webrtc.PeerConnectionState
	pcs    []*webrtc.PeerConnection
}

func startGame(t *testing.T, k keys, lite bool) *game {
	t.Helper()
	l, err := net.Listen("tcp4", loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	g := &game{t: t, keys: k, lite: lite, http: l.Addr().(*net.TCPAddr).AddrPort()}
	s := &http.Server{Handler: g}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return g
}

func (g *game) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = w.Write(wire.Status{Name: "echo"}.JSON())
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		var answer string
		if answer, err = g.answer(string(body)); err == nil {
			w.Header().Set("Content-Type", "application/sdp")
			if g.spoils != nil {
				answer = g.spoils(w, answer)
			}
			_, _ = io.WriteString(w, answer)
			return
		}
	}
	g.t.Error(err)
	http.Error(w, err.Error(), http.StatusUnauthorized)
}

func (g *game) answer(offer string) (string, error) {
	g.mu.Lock()
	g.offers = append(g.offers, offer)
	g.mu.Unlock()
	plain, err := accept(offer, publicOf(g.keys.client))
	if err != nil {
		return "", err
	}
	pc := newPion(g.t, g.lite)
	g.mu.Lock()
	g.pcs = append(g.pcs, pc)
	g.mu.Unlock()
	pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.states = append(g.states, s)
	})
	pc.OnDataChannel(func(d *webrtc.DataChannel) {
		in := wire.Assembler{Limit: 16 << 20}
		d.OnMessage(func(m webrtc.DataChannelMessage) {
			message, err := in.Add(m.Data)
			if err != nil {
				g.t.Error(err)
			}
			if message != nil {
				send(g.t, d, message)
			}
		})
	})
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: plain}); err != nil {
		return "", err
	}
	answer, err := pc.CreateAnswer(nil)
	if err != nil {
		return "", err
	}
	return describe(pc, answer, g.keys.server)
}

// send sends a message in fragments.
func send(t *testing.T, d *webrtc.DataChannel, message []byte) {
	s, err := wire.Split(message, wire.UsualFragment)
	if err != nil {
		t.Error(err)
		return
	}
	for {
		fragment, ok := s.Append(nil)
		if !ok {
			return
		}
		if err := d.Send(fragment); err != nil {
			return // the connection has ended
		}
	}
}

// player is a client of pion.
type player struct {
	t                    *testing.T
	pc                   *webrtc.PeerConnection
	reliable, unreliable *webrtc.DataChannel
	answer               string
	got, gotUnreliable   chan []byte
}

// join joins at an edge, and waits for both channels.
func join(t *testing.T, k keys, at string, addresses ...string) *player {
	t.Helper()
	pc := newPion(t, false, addresses...)
	p := &player{t: t, pc: pc, got: make(chan []byte, 10_000), gotUnreliable: make(chan []byte, 10_000)}
	opened := make(chan struct{}, 2)
	never, false_ := uint16(0), false
	for label, to := range map[string]struct {
		channel **webrtc.DataChannel
		options *webrtc.DataChannelInit
		got     chan []byte
	}{
		reliableLabel:   {&p.reliable, nil, p.got},
		unreliableLabel: {&p.unreliable, &webrtc.DataChannelInit{Ordered: &false_, MaxRetransmits: &never}, p.gotUnreliable},
	} {
		d, err := p.pc.CreateDataChannel(label, to.options)
		if err != nil {
			t.Fatal(err)
		}
		*to.channel = d
		d.OnOpen(func() { opened <- struct{}{} })
		in := wire.Assembler{Limit: 16 << 20}
		d.OnMessage(func(m webrtc.DataChannelMessage) {
			message, err := in.Add(m.Data)
			if err != nil {
				t.Error(err)
			}
			if message != nil {
				to.got <- bytes.Clone(message)
			}
		})
	}
	offer, err := p.pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := describe(p.pc, offer, k.client)
	if err != nil {
		t.Fatal(err)
	}
	p.answer = post(t, at, text)
	plain, err := accept(p.answer, publicOf(k.server))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: plain}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-opened:
		case <-time.After(patience):
			t.Fatal("the channels did not open")
		}
	}
	return p
}

// post asks for the state of a server, and sends the offer on the same connection.
func post(t *testing.T, at, offer string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := func(method, path string, body io.Reader) string {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+at+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/sdp")
		in, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = in.Body.Close() }()
		text, err := io.ReadAll(in.Body)
		if err != nil || in.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", method, in.StatusCode, text, err)
		}
		return string(text)
	}
	if s, err := wire.ParseStatus([]byte(ask(http.MethodGet, "/v1/join", nil))); err != nil || s.Name == "" {
		t.Fatal(s, err)
	}
	return ask(http.MethodPost, "/v1/join/1?version=1.26.60", strings.NewReader(offer))
}

// receive waits for a message.
func (p *player) receive(from chan []byte) []byte {
	p.t.Helper()
	select {
	case m := <-from:
		return m
	case <-time.After(patience):
		p.t.Fatal("no message")
		return nil
	}
}

// echo sends numbered messages, and wants all of them back in order.
func (p *player) echo(n int) {
	p.t.Helper()
	for i := range n {
		send(p.t, p.reliable, fmt.Appendf(nil, "message %d", i))
	}
	for i := range n {
		if got, want := string(p.receive(p.got)), fmt.Sprintf("message %d", i); got != want {
			p.t.Fatalf("got %q, want %q", got, want)
		}
	}
}
