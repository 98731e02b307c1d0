package nethernet

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tidegate/codec"
)

// Bounds of a server's state.
const (
	maxStatus     = 16 << 10
	maxStatusText = 256 // bytes of each text in a pong
)

// Status is a server's entry in the list of servers: the answer to a GET of /v1/join.
type Status struct {
	Name       string `json:"name"`
	Protocol   int    `json:"protocol"`
	Version    string `json:"version"`
	Level      string `json:"level"`
	Players    int    `json:"players"`
	MaxPlayers int    `json:"maxPlayers"`
	GameType   int    `json:"gameType"` // see gameTypes
}

// gameTypes are RakNet's names of NetherNet's numbers.
var gameTypes = []string{"Survival", "Creative", "Adventure"}

// ParseStatus reads the JSON of a server. Servers send more than this, and old ones send none. Errors wrap
// codec.ErrMalformed.
func ParseStatus(text []byte) (Status, error) {
	var s Status
	if len(text) > maxStatus {
		return Status{}, fmt.Errorf("%w: %d bytes", codec.ErrMalformed, len(text))
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, fmt.Errorf("%w: %w", codec.ErrMalformed, err)
	}
	return s, nil
}

// JSON returns the answer to a GET.
func (s Status) JSON() []byte { return mustMarshal(s) }

// Pong is what a RakNet server list says and a Status does not.
type Pong struct {
	GUID uint64
	Port uint16 // of RakNet, for IPv4 and IPv6
}

// The fields of RakNet's text for a Bedrock server, which semicolons separate.
const (
	pongEdition = iota
	pongName
	pongProtocol
	pongVersion
	pongPlayers
	pongMaxPlayers
	pongGUID
	pongLevel
	pongGameType
)

// ParsePong reads a Bedrock server's text in RakNet's server list. Fields that are missing stay zero. Errors wrap
// codec.ErrMalformed: it is no such text.
func ParsePong(text []byte) (Status, error) {
	if len(text) > maxStatus {
		return Status{}, fmt.Errorf("%w: %d bytes", codec.ErrMalformed, len(text))
	}
	fields := pongFields(string(text))
	if edition := fields[pongEdition]; edition != "MCPE" && edition != "MCEE" {
		return Status{}, fmt.Errorf("%w: no Bedrock server", codec.ErrMalformed)
	}
	s := Status{
		Name: fields[pongName], Version: fields[pongVersion], Level: fields[pongLevel],
		GameType: max(0, slices.Index(gameTypes, fields[pongGameType])),
	}
	for i, to := range map[int]*int{pongProtocol: &s.Protocol, pongPlayers: &s.Players, pongMaxPlayers: &s.MaxPlayers} {
		if n, err := strconv.ParseInt(fields[i], 10, 32); err == nil {
			*to = int(n)
		}
	}
	return s, nil
}

// pongFields returns the fields up to the game's type. A backslash before a semicolon makes it a part of a name.
func pongFields(text string) (fields [pongGameType + 1]string) {
	for i := range fields {
		var field strings.Builder
		for text != "" && text[0] != ';' {
			if strings.HasPrefix(text, `\;`) {
				text = text[1:]
			}
			field.WriteByte(text[0])
			text = text[1:]
		}
		fields[i], text = field.String(), strings.TrimPrefix(text, ";")
	}
	return fields
}

// AppendPong appends the text of RakNet's server list. Not all readers know a backslash before a semicolon. So the
// names get a comma in its place.
func (s Status) AppendPong(b []byte, p Pong) []byte {
	gameType := gameTypes[0]
	if s.GameType > 0 && s.GameType < len(gameTypes) {
		gameType = gameTypes[s.GameType]
	}
	return fmt.Appendf(b, "MCPE;%s;%d;%s;%d;%d;%d;%s;%s;1;%d;%d;", pongText(s.Name), small(s.Protocol),
		pongText(s.Version), small(s.Players), small(s.MaxPlayers), p.GUID, pongText(s.Level), gameType, p.Port, p.Port)
}

// AppendPongDatagram appends RakNet's answer to a question without a time, with a text of AppendPong.
func AppendPongDatagram(b []byte, guid uint64, text []byte) []byte {
	const pong = 0x1c
	b = be.AppendUint64(append(b, pong), 0)
	b = append(be.AppendUint64(b, guid), raknetMagic...)
	return append(be.AppendUint16(b, uint16(len(text))), text...)
}

func small(n int) int { return min(max(n, 0), math.MaxInt32) }

// pongText makes a text fit into a field.
func pongText(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxStatusText)], "")
	return strings.Map(func(c rune) rune {
		switch {
		case c == ';':
			return ','
		case c < ' ' || c == 0x7f || c == '\\':
			return -1
		}
		return c
	}, text)
}
