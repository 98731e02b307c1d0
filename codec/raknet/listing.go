package raknet

import (
	"bytes"
	"strconv"

	"tidegate/codec"
)

var _ codec.Pinger = (*Protocol)(nil)

// Bedrock servers put fields between semicolons (docs/protocols/raknet.md#server-lists). These are the ones that differ
// between a server and a proxy before it, counted from 0.
const (
	listedName       = 1
	listedPlayers    = 4
	listedMaxPlayers = 5
	listedPortIPv4   = 10
	listedPortIPv6   = 11
)

// IsPing recognises both pings.
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

// JoinPongs appends the first text. If it is a Bedrock server's, its players and places are the sums over all Bedrock
// servers' texts, and its name and ports those of the listing. A field that is no number stays as it is.
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

// isBedrockText reports whether a text is that of a Bedrock server: Minecraft's or its education edition's.
func isBedrockText(text []byte) bool {
	edition, _, _ := bytes.Cut(text, semicolon)
	return string(edition) == "MCPE" || string(edition) == "MCEE"
}

// sum adds up the numbers that Bedrock texts have in a field.
func sum(texts [][]byte, index int) uint64 {
	var total uint64
	for _, text := range texts {
		if n, ok := number(field(text, index)); ok && isBedrockText(text) {
			total += n
		}
	}
	return total
}

// field is the one with an index, or empty.
func field(text []byte, index int) []byte {
	for range index {
		_, text, _ = bytes.Cut(text, semicolon)
	}
	text, _, _ = bytes.Cut(text, semicolon)
	return text
}

// maxDigits is how long a number may be, so that no server's sum overflows.
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
