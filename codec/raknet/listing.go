package raknet

import (
	"bytes"
	"slices"
	"strconv"

	"tidegate/codec"
)

var _ codec.Pinger = (*Protocol)(nil)

// Bedrock servers put fields between semicolons (docs/protocols/raknet.md#server-lists). These fields differ between a
// server and its proxy, counted from 0.
const (
	listedName       = 1
	listedPlayers    = 4
	listedMaxPlayers = 5
	listedPortIPv4   = 10
	listedPortIPv6   = 11
)

// IsPing recognizes both pings.
func (p *Protocol) IsPing(datagram []byte) bool {
	id, ok := offlineID(datagram)
	return ok && (id == idUnconnectedPing || id == idUnconnectedPingOpen)
}

// AppendPong appends a pong with the time of the ping, and with the GUID and the dialect of the server's pong.
func (p *Protocol) AppendPong(b, ping, pong, text []byte) []byte {
	var question unconnectedPing
	answer, err := ParsePong(pong)
	if err != nil || question.parse(ping) != nil || len(ping) < pingSize {
		return b
	}
	sized := len(pong)-len(answer.Data) > pongHeaderSize
	answer.Time, answer.Data = question.time, text[:min(len(text), maxPong)]
	return answer.append(b, sized)
}

// AppendPing appends a ping with the token in place of the time.
func (p *Protocol) AppendPing(b []byte, token uint64) []byte { return AppendPing(b, token, p.o.GUID) }

// ParsePong reads a pong of either dialect.
func (p *Protocol) ParsePong(datagram []byte) (token uint64, text []byte, err error) {
	pong, err := ParsePong(datagram)
	return pong.Time, pong.Data, err
}

// JoinPongs appends the first text. If it is a Bedrock server's, its players and places become the sums over all
// Bedrock servers' texts. Its name and ports become those of the listing. A field that is not a number stays
// unchanged.
func (p *Protocol) JoinPongs(b []byte, texts [][]byte, as codec.Listing) []byte {
	if !isBedrockText(texts[0]) {
		return append(b, texts[0]...)
	}
	rest, more := texts[0], true
	for i := 0; more; i++ {
		var part []byte
		if i > 0 {
			b = append(b, semicolon...)
		}
		part, rest, more = bytes.Cut(rest, semicolon)
		_, isNumber := number(part)
		switch {
		case i == listedName && as.Name != "":
			b = append(b, as.Name...)
		case isNumber && (i == listedPlayers || i == listedMaxPlayers):
			b = strconv.AppendUint(b, sum(texts, i), 10)
		case isNumber && (i == listedPortIPv4 || i == listedPortIPv6):
			b = strconv.AppendUint(b, uint64(as.Port), 10)
		default:
			b = append(b, part...)
		}
	}
	return b
}

var semicolon = []byte{';'}

// isBedrockText reports whether a text comes from a Bedrock server: Minecraft or its education edition.
func isBedrockText(text []byte) bool {
	edition, _, _ := bytes.Cut(text, semicolon)
	return string(edition) == "MCPE" || string(edition) == "MCEE"
}

// sum adds the numbers in one field of the Bedrock texts.
func sum(texts [][]byte, index int) uint64 {
	var total uint64
	for _, text := range texts {
		if n, ok := number(field(text, index)); ok && isBedrockText(text) {
			total += n
		}
	}
	return total
}

// field returns the field with an index, or empty.
func field(text []byte, index int) []byte {
	for range index {
		_, text, _ = bytes.Cut(text, semicolon)
	}
	text, _, _ = bytes.Cut(text, semicolon)
	return text
}

// maxDigits bounds the length of a number, so that no server's sum overflows.
const maxDigits = 9

// number reads a field.
func number(field []byte) (n uint64, ok bool) {
	if len(field) == 0 || len(field) > maxDigits {
		return 0, false
	}
	for _, c := range field {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// refusals pairs the reasons of a refusal with their messages (docs/protocols/raknet/join.md#refusals).
var refusals = []struct {
	reason codec.Reason
	id     byte
}{
	{codec.AlreadyConnected, idAlreadyConnected},
	{codec.ServerFull, idNoFreeConnections},
	{codec.Banned, idConnectionBanned},
	{codec.InvalidPassword, idInvalidPassword},
	{codec.Incompatible, idIncompatibleVersion},
	{codec.TooSoon, idRecentlyConnected},
}

// refusalID returns the message for a reason, if there is one.
func refusalID(reason codec.Reason) (id byte, ok bool) {
	for _, r := range refusals {
		if r.reason == reason {
			return r.id, true
		}
	}
	return 0, false
}

// refusalReason returns the reason of a message, if it is a refusal.
func refusalReason(id byte) (reason codec.Reason, ok bool) {
	switch id {
	case idRequiresPublicKey, idRequiresSecurity:
		return codec.Incompatible, true
	case idConnectionAttemptFailed:
		return codec.NoConnection, true
	}
	for _, r := range refusals {
		if r.id == id {
			return r.reason, true
		}
	}
	return codec.ReasonNone, false
}

// serverIdentity is the server in whose name our server side answers a client. A zero version means our newest.
type serverIdentity struct {
	guid    uint64
	version uint8
}

// self returns our own identity, for answers without another server.
func (p *Protocol) self() serverIdentity { return serverIdentity{guid: p.o.GUID} }

// appendRefusal appends a refusal in a server's name.
func (p *Protocol) appendRefusal(b []byte, id byte, by serverIdentity) []byte {
	if id == idIncompatibleVersion {
		m := incompatible{version: by.version, guid: by.guid}
		setDefault(&m.version, slices.Max(p.o.Versions))
		return m.append(b)
	}
	m := refusal{id: id, guid: by.guid}
	return m.append(b)
}
