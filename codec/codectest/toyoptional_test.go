package codectest

import (
	"bytes"
	"encoding/binary"
	"time"

	"tidegate/codec"
)

// The toy's optional interfaces.
var (
	_ codec.PerLoop      = (*toyProtocol)(nil)
	_ codec.Pinger       = (*toyProtocol)(nil)
	_ codec.Identity     = (*toyConn)(nil)
	_ codec.LossTolerant = (*toyConn)(nil)
)

const toyQuestion = toyGrant + 1 // token u64; the answer has a text behind it

func (p *toyProtocol) ForLoop() codec.Protocol {
	if p.fault == "mute in a loop" {
		return &toyProtocol{fault: "forgets to resend", first: p.first}
	}
	return p
}

func (p *toyProtocol) AppendPing(b []byte, token uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, toyQuestion), token)
}

func isToyQuestion(b []byte) bool { return len(b) == 9 && b[0] == toyQuestion }

func (p *toyProtocol) ParsePong(b []byte) (token uint64, text []byte, err error) {
	if len(b) < 9 || b[0] != toyQuestion {
		return 0, nil, codec.ErrMalformed
	}
	if p.fault == "forgets its token" {
		return 0, b[9:], nil
	}
	return binary.BigEndian.Uint64(b[1:]), b[9:], nil
}

func (p *toyProtocol) IsPing(b []byte) bool { return isToyQuestion(b) }

func (p *toyProtocol) AppendPong(b, ping, pong, text []byte) []byte {
	if !isToyQuestion(ping) || len(pong) < 9 {
		return b
	}
	if p.fault == "answers as it was answered" {
		return append(b, pong...)
	}
	return append(append(b, ping...), text...)
}

func (p *toyProtocol) JoinPongs(b []byte, texts [][]byte, _ codec.Listing) []byte {
	if p.fault == "joins in place" {
		texts[0] = append(texts[0], '!')
	}
	return append(b, bytes.Join(texts, nil)...)
}

func (c *toyConn) Identity() uint64 {
	if c.fault == "names another client" {
		return c.identity + 1
	}
	return c.identity
}

func (c *toyConn) Version() uint8 { return 0 }

// TolerateLoss does nothing, because the toy resends until its peer is silent.
func (c *toyConn) TolerateLoss(time.Time) {
	if c.fault == "tolerates nothing" {
		c.end(codec.PoorConnection, nil, 0)
	}
}
