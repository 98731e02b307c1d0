package nethernet

import (
	"fmt"

	"tidegate/codec"
)

// Names of STUN's messages, of DTLS's records from 20 on, and of the messages of its handshake.
var (
	classNames = map[Class]string{
		Request: "check", Indication: "keepalive", Success: "answer to a check", Failure: "refusal of a check",
	}
	recordNames    = [...]string{"change of ciphers", "alert", "handshake", "data"}
	handshakeNames = map[byte]string{
		1: "client hello", 2: "server hello", 3: "hello verify request", 4: "session ticket", 11: "certificate",
		12: "server key exchange", 13: "certificate request", 14: "server hello done", 15: "certificate verify",
		16: "client key exchange", 20: "finished",
	}
)

const (
	recordHeader = 13 // bytes of a DTLS record's header
	dtlsHello    = 22
	dtlsData     = 23
)

// The stages of a conversation, by its datagrams.
var stageNames = [...]string{
	"", ": the client asks for admission", ": the server admits the client", ", which begins", ", whose handshake is done",
	", which seems to close",
}

// Describe begins to explain a conversation, for people: checks of ICE, records of DTLS, and how far the client came.
// What DTLS encrypts stays so. Errors wrap codec.ErrMalformed.
func Describe() func(fromServer bool, datagram []byte) (text string, content []string, err error) {
	stage := 0
	return func(fromServer bool, datagram []byte) (text string, content []string, err error) {
		reached := 0
		switch kind := KindOf(datagram); {
		case len(datagram) >= recordHeader && insideNames[datagram[0]] != "" && datagram[1] == 0xfe && datagram[2] == 0xfd:
			text = fmt.Sprintf("%s, %d bytes", insideNames[datagram[0]], be.Uint64(datagram[3:]))
			content = []string{fmt.Sprintf("%.100q", datagram[recordHeader:])}
		case kind == STUN:
			text, reached, err = describeCheck(fromServer, datagram)
		case kind == DTLS && datagram[0] > dtlsData && stage > 2: // DTLS 1.3 hides all but the beginning
			text, reached = "DTLS", 4
		case kind == DTLS:
			text = "DTLS"
			content, reached, err = describeRecords(datagram)
		default:
			err = codec.ErrMalformed
		}
		if err != nil {
			return "", nil, err
		}
		if reached > stage {
			stage = reached
			text += stageNames[stage]
		}
		return text, content, nil
	}
}

// Kinds of records that DTLS does not have: what captures add to datagrams.
const (
	InsideMessage = 30   // a message of the game, which DTLS hides
	InsideJoin    = 31   // how the player has joined over HTTP
	maxInside     = 1024 // bytes
)

var insideNames = map[byte]string{InsideMessage: "message inside", InsideJoin: "join over HTTP"}

// AppendInside appends a record for captures. Its number is the size of the content, of which the beginning follows.
func AppendInside(b []byte, kind byte, content []byte) []byte {
	b = append(be.AppendUint64(append(b, kind, 0xfe, 0xfd), uint64(len(content))), 0, 0)
	content = content[:min(len(content), maxInside)]
	be.PutUint16(b[len(b)-2:], uint16(len(content)))
	return append(b, content...)
}

func describeCheck(fromServer bool, datagram []byte) (text string, reached int, err error) {
	var b Binding
	if err := b.Parse(datagram); err != nil {
		return "", 0, err
	}
	text = fmt.Sprintf("%s %q", classNames[b.Class], b.Username)
	if b.Nominates {
		text += ", nominates this path"
	}
	switch {
	case !b.IsWhole():
		text += ", fingerprint missing or wrong"
	case b.Class == Request && !fromServer:
		reached = 1
	case b.Class == Success && fromServer:
		reached = 2
	}
	return text, reached, nil
}

func describeRecords(d []byte) (content []string, reached int, err error) {
	for len(d) > 0 {
		if d[0] < dtlsLeast || d[0] > dtlsData || len(d) < recordHeader || len(d)-recordHeader < int(be.Uint16(d[11:])) {
			return nil, 0, fmt.Errorf("%w: record of DTLS", codec.ErrMalformed)
		}
		name, body := recordNames[d[0]-dtlsLeast], d[recordHeader:recordHeader+int(be.Uint16(d[11:]))]
		switch isPlain := be.Uint16(d[3:]) == 0; {
		case !isPlain:
			name += ", encrypted"
			reached = max(reached, map[byte]int{dtlsData: 4, dtlsAlert: 5}[d[0]])
		case d[0] == dtlsHello && len(body) > 0:
			name += ", " + handshakeNames[body[0]]
			reached = max(reached, 3)
		}
		content = append(content, fmt.Sprintf("%s, %d bytes", name, len(body)))
		d = d[recordHeader+len(body):]
	}
	return content, reached, nil
}
