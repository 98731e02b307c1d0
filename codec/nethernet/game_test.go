package nethernet

import (
	"bytes"
	"compress/flate"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"github.com/klauspost/compress/snappy"
)

func playerKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// tokenWith returns a token with one claim. Its signature is for the server to judge.
func tokenWith(t testing.TB, name string, key *ecdsa.PrivateKey) string {
	t.Helper()
	text, err := KeyText(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return encode64([]byte(`{"alg":"ES384"}`)) + "." + encode64(mustMarshal(map[string]string{name: text})) + ".c2ln"
}

// webKeyOf returns a public key as a JWK.
func webKeyOf(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(mustMarshal(jwk{"EC", "P-384", encode64(point[1 : 1+half]), encode64(point[1+half:])}))
}

func batchOf(packets ...[]byte) (b []byte) {
	for _, p := range packets {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// loginWith returns a login packet with a request.
func loginWith(request string) []byte {
	text := binary.LittleEndian.AppendUint32(nil, uint32(len(request)))
	text = append(append(text, request...), 0, 0, 0, 0)
	return append(binary.AppendUvarint([]byte{packetLogin, 0, 0, 8, 0x79}, uint64(len(text))), text...)
}

func chainOf(t testing.TB, keys ...*ecdsa.PrivateKey) string {
	t.Helper()
	var chain []string
	for _, key := range keys {
		chain = append(chain, tokenWith(t, "identityPublicKey", key))
	}
	return string(mustMarshal(map[string][]string{"chain": chain}))
}

func packed(t testing.TB, how byte, b []byte) []byte {
	t.Helper()
	switch how {
	case compressDeflate:
		var out bytes.Buffer
		w, _ := flate.NewWriter(&out, flate.BestSpeed)
		if _, err := w.Write(b); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		b = out.Bytes()
	case compressSnappy:
		b = snappy.Encode(nil, b)
	}
	return append([]byte{how}, b...)
}

var (
	requestSettings = []byte{packetRequestSettings, 1, 0, 0, 8, 0x79}
	networkSettings = []byte{packetNetworkSettings, 1, 1, 0, 0, 0, 0}
	handshake       = []byte{packetHandshake, 1, 'x'}
	playStatus      = []byte{packetPlayStatus, 0, 0, 0, 0}
)

// beginGame returns a Game whose server has sent its settings.
func beginGame(t testing.TB, key *ecdsa.PublicKey) *Game {
	t.Helper()
	g := NewGame(key)
	if err := errors.Join(g.FromClient(batchOf(requestSettings)), g.FromServer(batchOf(networkSettings))); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLogin takes the login of the player who has joined, in each form, and refuses all others.
func TestLogin(t *testing.T) {
	own, other := playerKey(t), playerKey(t)
	token := func(key *ecdsa.PrivateKey, certificate string) string {
		return string(mustMarshal(map[string]any{
			"AuthenticationType": 0, "Certificate": certificate, "Token": tokenWith(t, "cpk", key),
		}))
	}
	webKey := func(more string) string { // a login with a JWK, as tokens have it since 26.40
		key := webKeyOf(t, own)
		claims := `{"cpk":` + key[:len(key)-1] + more + `}}`
		return string(mustMarshal(map[string]string{
			"Token": encode64([]byte(`{"alg":"RS256"}`)) + "." + encode64([]byte(claims)) + ".c2ln",
		}))
	}
	twice := func(name string) string { // two chains, of which programs may take either
		first := chainOf(t, own)
		return first[:len(first)-1] + `,"` + name + `":["` + tokenWith(t, "identityPublicKey", other) + `"]}`
	}
	for name, test := range map[string]struct {
		request string
		fits    bool
	}{
		"a chain":                  {chainOf(t, other, other, own), true},
		"a lone token":             {chainOf(t, own), true},
		"a new login":              {token(own, ""), true},
		"a new login with a JWK":   {webKey(""), true},
		"a part of a JWK twice":    {webKey(`,"X":""`), false},
		"both, new":                {token(own, chainOf(t, own)), true},
		"a chain in a text":        {string(mustMarshal(map[string]string{"Certificate": chainOf(t, own)})), true},
		"another's chain":          {chainOf(t, own, other), false},
		"another's token":          {token(other, chainOf(t, own)), false},
		"another's certificate":    {token(own, chainOf(t, other)), false},
		"no key":                   {`{"chain":[]}`, false},
		"an empty login":           {`{}`, false},
		"no JSON":                  {`login`, false},
		"two chains":               {twice("chain"), false},
		"two chains, another case": {twice("CHAIN"), false},
		"more behind":              {chainOf(t, own) + chainOf(t, other), false},
	} {
		for _, how := range []byte{compressNone, compressDeflate, compressSnappy} {
			g := beginGame(t, &own.PublicKey)
			err := g.FromClient(packed(t, how, batchOf(loginWith(test.request))))
			if test.fits != (err == nil) || err != nil && !errors.Is(err, ErrLogin) {
				t.Errorf("%s, compression %d: %v", name, how, err)
			}
			_ = g.FromServer(packed(t, how, batchOf(playStatus)))
			if after := g.FromClient([]byte("the game")); test.fits != (after == nil) {
				t.Errorf("%s: then %v", name, after)
			}
		}
	}
}

// TestBeforeSettings takes one request for settings and nothing else until the server's settings have passed: the
// server could read anything else in another way.
func TestBeforeSettings(t *testing.T) {
	own := playerKey(t)
	for name, messages := range map[string][][]byte{
		"two requests":      {batchOf(requestSettings), batchOf(requestSettings)},
		"two in a batch":    {batchOf(requestSettings, requestSettings)},
		"more in a request": {batchOf(append([]byte{packetRequestSettings, 1}, make([]byte, 300)...))},
		"a packed batch":    {batchOf(requestSettings), append([]byte{compressNone}, batchOf(requestSettings)...)},
		"a login":           {batchOf(loginWith(chainOf(t, own)))},
		"nothing":           {nil},
	} {
		g := NewGame(&own.PublicKey)
		var err error
		for _, message := range messages {
			err = errors.Join(err, g.FromClient(message))
		}
		if !errors.Is(err, ErrLogin) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecondLogin refuses another login while the server verifies the first one, and lets all else pass.
func TestSecondLogin(t *testing.T) {
	own := playerKey(t)
	login := append([]byte{compressNone}, batchOf(loginWith(chainOf(t, own)), []byte{9, 1})...)
	g := beginGame(t, &own.PublicKey)
	if err := errors.Join(g.FromClient(login), g.FromClient([]byte{compressNone, 2, 9, 1})); err != nil {
		t.Fatal(err)
	}
	if err := g.FromClient(login); !errors.Is(err, ErrLogin) {
		t.Error(err)
	}
}

// TestBeforeLogin refuses packets that may not come before a login, and a second login beside a good one.
func TestBeforeLogin(t *testing.T) {
	own, other := playerKey(t), playerKey(t)
	good, bad := loginWith(chainOf(t, own)), loginWith(chainOf(t, other))
	for name, batch := range map[string][]byte{
		"two logins":     batchOf(good, bad),
		"a text":         batchOf([]byte{9, 1}),
		"a split screen": batchOf(append([]byte{packetLogin | 0x80, 8}, bad[1:]...)),
		"cut":            batchOf(good)[:50],
		"many":           bytes.Repeat(batchOf(requestSettings), maxPackets+1),
	} {
		if err := beginGame(t, &own.PublicKey).FromClient(append([]byte{compressNone}, batch...)); !errors.Is(err, ErrLogin) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bomb := packed(t, compressDeflate, make([]byte, maxBatch+1))
	if err := beginGame(t, &own.PublicKey).FromClient(bomb); !errors.Is(err, ErrLogin) {
		t.Error(err)
	}
	if err := NewGame(nil).FromClient([]byte("any")); err != nil {
		t.Error(err)
	}
}

// TestEncryption notices a server that asks for encryption, and no later message that looks like it.
func TestEncryption(t *testing.T) {
	g := beginGame(t, nil)
	if err := g.FromServer(packed(t, compressDeflate, batchOf(handshake))); !errors.Is(err, ErrEncryption) {
		t.Error(err)
	}
	g = beginGame(t, nil)
	if err := g.FromServer(packed(t, compressSnappy, batchOf(playStatus))); err != nil {
		t.Error(err)
	}
	if err := g.FromServer(packed(t, compressNone, batchOf(handshake))); err != nil {
		t.Error(err)
	}
}

// TestDisconnect reads the last text as a client does, before and after the server's settings.
func TestDisconnect(t *testing.T) {
	for name, g := range map[string]*Game{"plain": NewGame(nil), "packed": beginGame(t, nil)} {
		packets, err := g.packets(g.AppendDisconnect(nil, "Join again."))
		if err != nil || len(packets) != 1 || packets[0].id != packetDisconnect ||
			!bytes.Contains(packets[0].body, []byte("\x0bJoin again.")) {
			t.Errorf("%s: %v, %v", name, packets, err)
		}
	}
}

// FuzzGame sends anything in both directions. A login with another key never passes.
func FuzzGame(f *testing.F) {
	own, other := playerKey(f), playerKey(f)
	f.Add(append([]byte{compressNone}, batchOf(loginWith(chainOf(f, other)))...), batchOf(networkSettings), true)
	f.Add(packed(f, compressDeflate, batchOf(requestSettings)), packed(f, compressNone, batchOf(handshake)), false)
	f.Add(packed(f, compressSnappy, batchOf(requestSettings)), []byte{1}, true)
	f.Fuzz(func(t *testing.T, client, server []byte, settled bool) {
		g := NewGame(&own.PublicKey)
		if settled {
			g = beginGame(t, &own.PublicKey)
		}
		_ = g.FromServer(server)
		if err := g.FromClient(client); err == nil && g.loggedIn {
			t.Fatal("a login without the key has passed")
		}
	})
}

// FuzzStrictObject compares with Go's own reader: each object that is taken has the same values there.
func FuzzStrictObject(f *testing.F) {
	f.Add([]byte(`{"chain":["a"],"Token":"b"}`))
	f.Add([]byte(`{"a":1,"A":2}`))
	f.Add([]byte(`{"a":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := strictObject(text)
		if err != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil || len(want) != len(got) {
			t.Fatalf("%v, %v instead of %v", err, got, want)
		}
	})
}
