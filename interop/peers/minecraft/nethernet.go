package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"
	"github.com/sandertv/gophertunnel/minecraft"
)

// netherNet is gophertunnel's network for clients of NetherNet, on pion. The key of the login signs the join, or, for a
// thief who has another's login, a key of the thief's own.
type netherNet struct{ steals bool }

func init() {
	for name, steals := range map[string]bool{"nethernet": false, "thief": true} {
		minecraft.RegisterNetwork(name, func(*slog.Logger) minecraft.Network { return netherNet{steals} })
	}
}

func (netherNet) PingContext(context.Context, string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func (netherNet) Listen(string) (minecraft.NetworkListener, error) { return nil, errors.ErrUnsupported }

// DialContext joins. The key is in the context (minecraft_test.go).
func (n netherNet) DialContext(ctx context.Context, address string) (net.Conn, error) {
	key, ok := ctx.Value("key").(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("gophertunnel gives no key")
	}
	if n.steals {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader); err != nil {
			return nil, err
		}
	}
	c := &netherConn{messages: make(chan []byte, 10000), ended: make(chan struct{})}
	var err error
	if c.remote, err = net.ResolveUDPAddr("udp", address); err != nil {
		return nil, err
	}
	if c.pc, err = newConnection(); err != nil {
		return nil, err
	}
	if err := c.join(ctx, address, key); err != nil {
		c.over()
		return nil, errors.Join(err, c.pc.Close())
	}
	return c, nil
}

// netherConn is a client's connection.
type netherConn struct {
	pc       *webrtc.PeerConnection
	reliable *webrtc.DataChannel
	remote   net.Addr
	part     []byte // of a message
	messages chan []byte
	ended    chan struct{}
	end      sync.Once
}

func newConnection() (*webrtc.PeerConnection, error) {
	var e webrtc.SettingEngine
	e.SetIncludeLoopbackCandidate(true)
	e.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	e.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	e.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	e.SetSCTPMaxMessageSize(262144)
	return webrtc.NewAPI(webrtc.WithSettingEngine(e)).NewPeerConnection(webrtc.Configuration{})
}

func (c *netherConn) join(ctx context.Context, address string, key *ecdsa.PrivateKey) (err error) {
	opened, no, never := make(chan struct{}, 2), false, uint16(0)
	if c.reliable, err = c.pc.CreateDataChannel("ReliableDataChannel", nil); err != nil {
		return err
	}
	unreliable, err := c.pc.CreateDataChannel("UnreliableDataChannel",
		&webrtc.DataChannelInit{Ordered: &no, MaxRetransmits: &never})
	if err != nil {
		return err
	}
	for _, d := range []*webrtc.DataChannel{c.reliable, unreliable} {
		d.OnOpen(func() { opened <- struct{}{} })
		d.OnClose(c.over)
	}
	c.reliable.OnMessage(c.receive)
	offer, err := c.pc.CreateOffer(nil)
	if err != nil {
		return err
	}
	gathered := webrtc.GatheringCompletePromise(c.pc)
	if err := c.pc.SetLocalDescription(offer); err != nil {
		return err
	}
	<-gathered
	answer, err := exchange(ctx, address, c.pc.LocalDescription().SDP, key)
	if err != nil {
		return err
	}
	description := webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}
	if err := c.pc.SetRemoteDescription(description); err != nil {
		return err
	}
	for range 2 {
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// exchange sends the offer with an identity, and returns the answer without one.
func exchange(ctx context.Context, address, offer string, key *ecdsa.PrivateKey) (string, error) {
	identity, err := identityOf(offer, key)
	if err != nil {
		return "", err
	}
	offer = strings.Replace(offer, "\r\nm=", "\r\na=identity:"+identity+"\r\nm=", 1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/join/4", strings.NewReader(offer))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/sdp")
	in, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer in.Body.Close()
	text, err := io.ReadAll(in.Body)
	if err != nil || !bytes.HasPrefix(text, []byte("v=")) {
		return "", fmt.Errorf("join: %d %.100s, %w", in.StatusCode, text, err)
	}
	return regexp.MustCompile(`a=identity:\S+\r\n`).ReplaceAllString(string(text), ""), nil
}

var fingerprintLine = regexp.MustCompile(`(?m)^a=fingerprint:(\S+) (\S+)\r?$`)

// identityOf signs the fingerprints of a description.
func identityOf(description string, key *ecdsa.PrivateKey) (string, error) {
	type fingerprint struct {
		Algorithm string `json:"algorithm"`
		Digest    string `json:"digest"`
	}
	var all []fingerprint
	for _, found := range fingerprintLine.FindAllStringSubmatch(description, -1) {
		all = append(all, fingerprint{found[1], found[2]})
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES384, Key: key}, nil)
	if err != nil {
		return "", err
	}
	sign := func(value any) (whole, detached string) {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			panic(err)
		}
		whole, _ = signed.CompactSerialize()
		detached, _ = signed.DetachedCompactSerialize()
		return whole, detached
	}
	now := time.Now().Unix()
	token, _ := sign(map[string]any{"cpk": jose.JSONWebKey{Key: &key.PublicKey}, "iat": now, "exp": now + 60})
	_, prints := sign(map[string]any{"fingerprint": all})
	assertion, err := json.Marshal(map[string]string{"token": token, "fingerprints": prints})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{
		"idp": map[string]string{"domain": "", "protocol": "default"}, "assertion": string(assertion),
	})
	return base64.StdEncoding.EncodeToString(text), err
}

// gameByte begins each message of Bedrock's on RakNet, and none on NetherNet.
const gameByte = 0xfe

func (c *netherConn) receive(m webrtc.DataChannelMessage) {
	if len(m.Data) == 0 {
		return
	}
	if c.part = append(c.part, m.Data[1:]...); m.Data[0] > 0 {
		return
	}
	message := append([]byte{gameByte}, c.part...)
	c.part = nil
	select {
	case c.messages <- message:
	case <-c.ended:
	}
}

// ReadPacket returns a message as gophertunnel has it.
func (c *netherConn) ReadPacket() ([]byte, error) {
	select {
	case message := <-c.messages:
		return message, nil
	default:
	}
	select {
	case message := <-c.messages:
		return message, nil
	case <-c.ended:
		return nil, net.ErrClosed
	}
}

func (c *netherConn) Write(b []byte) (int, error) {
	const room = 9999
	message := b[1:]
	for left := (len(message) - 1) / room; left >= 0; left-- {
		part := message[:min(room, len(message))]
		message = message[len(part):]
		if err := c.reliable.Send(append([]byte{byte(left)}, part...)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (c *netherConn) over() { c.end.Do(func() { close(c.ended) }) }

func (c *netherConn) Close() error {
	c.over()
	return c.pc.GracefulClose()
}

func (c *netherConn) Read([]byte) (int, error)         { return 0, errors.ErrUnsupported } // ReadPacket is there
func (c *netherConn) LocalAddr() net.Addr              { return &net.UDPAddr{} }
func (c *netherConn) RemoteAddr() net.Addr             { return c.remote }
func (c *netherConn) SetDeadline(time.Time) error      { return nil }
func (c *netherConn) SetReadDeadline(time.Time) error  { return nil }
func (c *netherConn) SetWriteDeadline(time.Time) error { return nil }
