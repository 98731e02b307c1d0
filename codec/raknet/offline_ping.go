package raknet

import "encoding/binary"

// unconnectedPing asks a server for its pong, without a connection (docs/protocols/raknet.md#offline):
//
//	0       0x01, or 0x02 to be answered only by a server with a free place
//	1..8    the sender's time in milliseconds
//	9..24   magic
//	25..32  the sender's GUID; old clients leave it out
type unconnectedPing struct {
	id   byte
	time uint64
	guid uint64
}

// pingSize is the length of a whole ping; minPingSize is that of a ping without its GUID.
const (
	minPingSize = 9 + len(magic)
	pingSize    = minPingSize + 8
)

func (p *unconnectedPing) parse(b []byte) error {
	if len(b) < minPingSize {
		return errOfflineShort
	}
	if (b[0] != idUnconnectedPing && b[0] != idUnconnectedPingOpen) || string(b[9:minPingSize]) != magic {
		return errOfflineMagic
	}
	*p = unconnectedPing{id: b[0], time: binary.BigEndian.Uint64(b[1:])}
	if len(b) >= pingSize {
		p.guid = binary.BigEndian.Uint64(b[minPingSize:])
	}
	return nil
}

func (p *unconnectedPing) append(b []byte) []byte {
	b = append(b, p.id)
	b = binary.BigEndian.AppendUint64(b, p.time)
	b = append(b, magic...)
	return appendGUID(b, p.guid)
}

// Pong is a server's answer to a ping (docs/protocols/raknet.md#offline):
//
//	0       0x1c
//	1..8    the time of the ping
//	9..16   the server's GUID
//	17..32  magic
//	33..    Data; the Bedrock dialect puts its length, big-endian, before it
type Pong struct {
	Time uint64 // the time of the ping
	GUID uint64 // the server's GUID
	Data []byte // the game's text, at most a few hundred bytes; aliases the datagram
}

// pongHeaderSize is the size of a pong before its data.
const pongHeaderSize = 17 + len(magic)

// AppendPing appends a ping for any server, with or without a free place. The pong will carry the same time, in any
// unit; RakNet itself writes milliseconds.
func AppendPing(b []byte, time, guid uint64) []byte {
	p := unconnectedPing{id: idUnconnectedPing, time: time, guid: guid}
	return p.append(b)
}

// ParsePong reads a pong of either dialect. If the first two bytes of its data are the length of the rest, they are
// not part of Data. Errors wrap codec.ErrMalformed.
func ParsePong(b []byte) (Pong, error) {
	const data = pongHeaderSize
	if len(b) < data {
		return Pong{}, errOfflineShort
	}
	if b[0] != idUnconnectedPong || string(b[17:data]) != magic {
		return Pong{}, errOfflineMagic
	}
	p := Pong{Time: binary.BigEndian.Uint64(b[1:]), GUID: binary.BigEndian.Uint64(b[9:]), Data: b[data:]}
	if n := len(p.Data) - 2; n >= 0 && int(binary.BigEndian.Uint16(p.Data)) == n {
		p.Data = p.Data[2:]
	}
	return p, nil
}

// append appends the pong. sized puts the length of Data before it, for clients of the Bedrock dialect.
func (p *Pong) append(b []byte, sized bool) []byte {
	b = append(b, idUnconnectedPong)
	b = binary.BigEndian.AppendUint64(b, p.Time)
	b = appendGUID(b, p.GUID)
	b = append(b, magic...)
	if sized {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p.Data)))
	}
	return append(b, p.Data...)
}
