package nethernet

import (
	"bytes"
	"compress/flate"
	"crypto/ecdsa"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/snappy"
)

// Errors of Game.
var (
	// ErrLogin reports a login that does not belong to the connection's player.
	ErrLogin = errors.New("the login is not that of the player who has joined")
	// ErrEncryption reports a server that asks for Bedrock's own encryption. NetherNet's clients have none.
	ErrEncryption = errors.New("the server asks for encryption: turn that off at the server, since DTLS encrypts already")
)

// Packets of Bedrock.
const (
	packetLogin           = 1
	packetPlayStatus      = 2
	packetHandshake       = 3 // the server asks for encryption
	packetDisconnect      = 5
	packetNetworkSettings = 143
	packetRequestSettings = 193
	packetMask            = 0x3ff // of a header: the rest names players of a split screen
)

// Compressions of a batch, in its first byte once the server has sent its settings.
const (
	compressDeflate = 0x00
	compressSnappy  = 0x01
	compressNone    = 0xff
)

const (
	maxBatch   = 8 << 20 // bytes of a batch, unpacked
	maxPackets = 16      // in a batch before the game
)

// Game watches the first messages of a game that crosses between NetherNet and RakNet. On RakNet, Bedrock's encryption
// proves that a login belongs to its sender. NetherNet has no such encryption. So the key of the login must be the one
// that has signed the description, or a recorded login would serve any thief. It is not safe for concurrent use.
//
// A server packs from the moment it reads the request for its settings. So until the settings pass, a second message
// could be read in two ways. And some servers take another login while they verify the first one.
type Game struct {
	key       *ecdsa.PublicKey
	asked     bool // the client has asked for the settings
	packed    bool // the server has sent its settings: batches begin with their compression
	loggedIn  bool
	encrypted int // batches in which the server may still ask for encryption
}

// patientBatches is the number of a server's batches until it has answered a login.
const patientBatches = 8

// NewGame returns a Game whose login must have the key; nil: any.
func NewGame(key *ecdsa.PublicKey) *Game {
	return &Game{key: key, encrypted: patientBatches}
}

// FromClient judges a message of the client's until the server has answered its login. Errors wrap ErrLogin.
func (g *Game) FromClient(message []byte) error {
	if g.key == nil || g.loggedIn && g.encrypted == 0 {
		return nil
	}
	packets, err := g.packets(message)
	if err == nil && g.packed {
		err = g.enter(packets)
	} else if err == nil {
		err = g.ask(packets)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLogin, err)
	}
	return nil
}

// ask takes the one message before the server's settings.
func (g *Game) ask(packets []packet) error {
	const version = 4 // bytes of the protocol's
	if g.asked || len(packets) != 1 || packets[0].id != packetRequestSettings || len(packets[0].body) != version {
		return errors.New("not one request for settings before it")
	}
	g.asked = true
	return nil
}

// enter takes one login, and after it any packet but another.
func (g *Game) enter(packets []packet) error {
	for _, p := range packets {
		if isLogin := p.id == packetLogin; isLogin == g.loggedIn {
			return fmt.Errorf("packet %d out of turn", p.id)
		} else if isLogin {
			if err := g.login(p.body); err != nil {
				return err
			}
			g.loggedIn = true
		}
	}
	return nil
}

// FromServer notes a message of the server's, before the client gets it. The error is ErrEncryption.
func (g *Game) FromServer(message []byte) error {
	if g.encrypted == 0 {
		return nil
	}
	g.encrypted--
	packets, err := g.packets(message)
	if err != nil {
		return nil // the client judges it
	}
	for _, p := range packets {
		switch p.id {
		case packetHandshake:
			return ErrEncryption
		case packetPlayStatus:
			g.encrypted = 0
		case packetNetworkSettings:
			g.packed = true
		}
	}
	return nil
}

// AppendDisconnect appends a message that shows a player a text.
func (g *Game) AppendDisconnect(b []byte, text string) []byte {
	packet := []byte{packetDisconnect, 0, 0} // no reason, and the text is shown
	for _, one := range []string{text, ""} { // the second is for a filter of words
		packet = append(binary.AppendUvarint(packet, uint64(len(one))), one...)
	}
	if g.packed {
		b = append(b, compressNone)
	}
	return append(binary.AppendUvarint(b, uint64(len(packet))), packet...)
}

type packet struct {
	id   int
	body []byte
}

var errBatch = errors.New("malformed batch")

// packets reads the packets of a message.
func (g *Game) packets(message []byte) (all []packet, err error) {
	if g.packed {
		if message, err = unpack(message); err != nil {
			return nil, err
		}
	}
	for len(message) > 0 {
		var one []byte
		if one, message, err = cut(message); err != nil {
			return nil, err
		}
		header, n := binary.Uvarint(one)
		if n <= 0 || header > 1<<14 || len(all) == maxPackets {
			return nil, errBatch
		}
		all = append(all, packet{int(header & packetMask), one[n:]})
	}
	return all, nil
}

// cut returns the bytes after their length, and the rest.
func cut(b []byte) (one, rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, errBatch
	}
	end := n + int(size)
	return b[n:end], b[end:], nil
}

// unpack takes the compression of a batch away.
func unpack(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, errBatch
	}
	switch data := b[1:]; b[0] {
	case compressNone:
		return data, nil
	case compressDeflate:
		r := flate.NewReader(bytes.NewReader(data))
		out, err := io.ReadAll(io.LimitReader(r, maxBatch+1))
		if err != nil || len(out) > maxBatch {
			return nil, errBatch
		}
		return out, nil
	case compressSnappy:
		if n, err := snappy.DecodedLen(data); err != nil || n > maxBatch {
			return nil, errBatch
		}
		out, err := snappy.Decode(nil, data)
		if err != nil {
			return nil, errBatch
		}
		return out, nil
	}
	return nil, errBatch
}

// login checks that all keys in a login are the player's. The server verifies its signatures.
func (g *Game) login(body []byte) error {
	const version, size = 4, 4 // of the protocol, and of a text
	if len(body) < version {
		return errBatch
	}
	request, _, err := cut(body[version:])
	if err != nil || len(request) < size {
		return errBatch
	}
	n := binary.LittleEndian.Uint32(request)
	if uint64(n) > uint64(len(request)-size) {
		return errBatch
	}
	keys, err := loginKeys(request[size : size+int(n)])
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return errors.New("no key")
	}
	for _, raw := range keys {
		key, err := parseKey(raw)
		if err != nil {
			return err
		}
		if !key.Equal(g.key) {
			return errors.New("another key")
		}
	}
	return nil
}

// loginKeys returns the keys that a login names. Old ones have a chain of tokens, the last of which names the key.
// New ones have a token of its own, and a chain in a text.
func loginKeys(text []byte) (keys []json.RawMessage, err error) {
	outer, err := strictObject(text)
	if err != nil {
		return nil, err
	}
	var token, inner string
	if err := optional(outer, "Token", &token); err != nil {
		return nil, err
	}
	if err := optional(outer, "Certificate", &inner); err != nil {
		return nil, err
	}
	if token != "" {
		if keys, err = appendClaim(keys, token, "cpk"); err != nil {
			return nil, err
		}
	}
	chains := []map[string]json.RawMessage{outer}
	if inner != "" {
		within, err := strictObject([]byte(inner))
		if err != nil {
			return nil, err
		}
		chains = append(chains, within)
	}
	for _, from := range chains {
		var chain []string
		if err := optional(from, "chain", &chain); err != nil {
			return nil, err
		}
		if len(chain) == 0 || len(chain) == 1 && chain[0] == "" {
			continue
		}
		if keys, err = appendClaim(keys, chain[len(chain)-1], "identityPublicKey"); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// optional reads a field that may be missing.
func optional(from map[string]json.RawMessage, name string, to any) error {
	if raw := from[name]; raw != nil {
		return json.Unmarshal(raw, to)
	}
	return nil
}

// appendClaim appends a claim of a token.
func appendClaim(keys []json.RawMessage, token, name string) ([]json.RawMessage, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("no token")
	}
	text, err := decode64(parts[1])
	if err != nil {
		return nil, err
	}
	claims, err := strictObject(text)
	if err != nil {
		return nil, err
	}
	key, simple := claims[name], ""
	if key == nil {
		return nil, fmt.Errorf("no %s", name)
	}
	if json.Unmarshal(key, &simple) != nil { // a JWK
		if _, err := strictObject(key); err != nil {
			return nil, err
		}
	}
	return append(keys, key), nil
}

// strictObject reads a JSON object. Programs do not agree which of two equal names counts, or whether case matters. So
// a second name, also in other case, is a fault.
func strictObject(text []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no JSON object")
	}
	all, seen := make(map[string]json.RawMessage), make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if folded := strings.ToLower(name); seen[folded] {
			return nil, fmt.Errorf("%.20q twice", name)
		} else {
			seen[folded] = true
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return nil, errors.New("more than a JSON object")
	}
	return all, nil
}
