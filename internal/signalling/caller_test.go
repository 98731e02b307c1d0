package signalling

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"tidegate/codec/nethernet"
)

var ourPrint = nethernet.Fingerprint{Algorithm: "sha-256", Digest: "AB:CD"}

func newTestCaller(t *testing.T, anyAddress bool) *Caller {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return NewCaller(key, ourPrint, anyAddress)
}

// TestCaller joins a server like Bedrock's. The offer has a valid identity, and no address.
func TestCaller(t *testing.T) {
	b, c := startBDS(t), newTestCaller(t, false)
	a, err := c.Join(t.Context(), b.addr)
	if err != nil {
		t.Fatal(err)
	}
	if a.Target != netip.AddrPortFrom(b.addr.Addr(), 50001) || a.PeerUfrag != "srv1" || len(a.PeerPassword) != 22 ||
		a.Peer.Fingerprints[0] != (nethernet.Fingerprint{Algorithm: "sha-256", Digest: "CC:DD"}) {
		t.Errorf("%+v", a)
	}
	heard := <-b.asked
	d, err := nethernet.ParseDescription([]byte(heard.body))
	if err != nil || heard.length <= 0 || heard.header.Get("Content-Type") != "application/sdp" ||
		!strings.HasPrefix(heard.uri, "/v1/join/") || heard.host != b.addr.String() {
		t.Fatalf("%v, %+v", err, heard)
	}
	if d.Ufrag != a.Ufrag || d.Password != a.Password || d.Lite || d.Setup != "actpass" || len(d.Candidates) != 0 ||
		d.SCTPPort != nethernet.SCTPPort || d.MaxMessageSize != nethernet.MaxFragment {
		t.Errorf("%+v", d)
	}
	identity, err := nethernet.ParseIdentity(d.Identity)
	if err != nil {
		t.Fatal(err)
	}
	token, err := nethernet.ParseToken(identity.Token)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(token.VerifyOwn(), identity.Verify(token.Key, d.Fingerprints)); err != nil ||
		!token.Key.Equal(&c.key.PublicKey) {
		t.Error(err)
	}
	other, err := c.Join(t.Context(), b.addr)
	if err != nil || other.Ufrag == a.Ufrag || other.Password == a.Password || other.Seed == a.Seed {
		t.Errorf("%v, %+v", err, other)
	}
}

// TestCallerHostile asks servers that answer what a player must not suffer from. Each is asked once.
func TestCallerHostile(t *testing.T) {
	refused := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://192.0.2.1/v1/join/1")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	answers := func(from, to string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(strings.ReplaceAll(fmt.Sprintf(answerText, "127.0.0.1", 1), from, to)))
		}
	}
	for name, row := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"a third party":    {answers("127.0.0.1 50001", "198.51.100.1 53"), "not the server's"},
		"many, all others": {answers("a=candidate", "a=candidate:9 1 udp 9 192.0.2.9 9 typ host\r\na=x"), "not the server's"},
		"no candidate":     {answers("a=candidate", "a=nothing"), "no UDP candidate"},
		"another DTLS":     {answers("active", "passive"), "a=setup:active"},
		"no fingerprint":   {answers("a=fingerprint", "a=no"), "no fingerprint"},
		"two ufrags":       {answers("a=ice-ufrag", "a=ice-ufrag:other\r\na=ice-ufrag"), "twice"},
		"huge":             {refused(200, "v=0\r\n"+strings.Repeat("a=x\r\n", maxBody/5)), "too large"},
		"full":             {refused(503, "full"), `HTTP status 503, "full"`},
		"wants TLS":        {refused(426, ""), "HTTP status 426"},
		"a number":         {refused(200, "37"), `HTTP status 200, "37"`},
		"nothing":          {refused(204, ""), "HTTP status 204"},
		"a redirect":       {refused(307, "v=0"), "HTTP status 307"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBDS(t)
			b.behave(func(w http.ResponseWriter, _ *http.Request, _ int) { row.answer(w) })
			a, err := newTestCaller(t, false).Join(t.Context(), b.addr)
			if a != nil || err == nil || !strings.Contains(err.Error(), row.want) || b.joins.Load() != 1 {
				t.Errorf("%+v, %v, %d joins", a, err, b.joins.Load())
			}
		})
	}
}

// TestCallerNAT takes the port alone of a server in a container.
func TestCallerNAT(t *testing.T) {
	b := startBDS(t)
	b.behave(func(w http.ResponseWriter, _ *http.Request, n int) {
		_, _ = fmt.Fprintf(w, answerText, "172.17.0.2", n)
	})
	a, err := newTestCaller(t, true).Join(t.Context(), b.addr)
	if err != nil || a.Target != netip.AddrPortFrom(b.addr.Addr(), 50001) {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestCallerSlow leaves a server that sends a part of an answer, once the player has gone. Until then, it takes one of
// the places, and a join without a place fails at once.
func TestCallerSlow(t *testing.T) {
	b, c := startBDS(t), newTestCaller(t, false)
	c.places = make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	b.behave(func(w http.ResponseWriter, r *http.Request, _ int) {
		_, _ = w.Write([]byte("v=0"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ended := make(chan error)
	go func() {
		_, err := c.Join(ctx, b.addr)
		ended <- err
	}()
	<-b.asked
	if _, err := c.Join(t.Context(), b.addr); !errors.Is(err, ErrCalls) {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(c.places) != 0 {
		t.Error("its place is not free")
	}
}
