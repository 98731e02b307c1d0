// Package replay plays the clients of a capture against a server: with handshakes of their own, and the messages that
// the clients sent in the capture. It compares the server's messages with those in the capture.
//
// Start with Run. A script (script.go) has the messages of one conversation, which a codec reads out of the datagrams
// as a third party. A player (player.go) plays it over a real socket, and a comparison (compare.go) finds differences.
package replay

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"tidegate/codec"
	"tidegate/internal/decode"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// script is one conversation as its client and its server experienced it.
type script struct {
	of       *decode.Conversation
	protocol *registry.Descriptor
	numbers  registry.Numbers // nil: messages contain none of the session
	hello    codec.Hello
	opening  []byte        // the client's first datagram
	version  uint8         // of the client's protocol; 0: unknown
	begins   bool          // the capture has its beginning
	opened   time.Duration // time of the first datagram
	origin   time.Duration // time of the first message of either side
	lasts    time.Duration // from the first message to the last datagram
	said     []line        // by the client
	heard    []line        // from the server
	end      ending
	leftAt   time.Duration // when the client said goodbye
	faults   int           // datagrams that could not be read
}

// line is a message of a script.
type line struct {
	at time.Duration // since the script's origin
	codec.Message
}

// ending is how a conversation ended.
type ending string

// Endings. An ending by the server has its reason as well.
const (
	open     ending = "open"
	byClient ending = "client left"
)

func byServer(why codec.Reason) ending { return ending("server: " + why.String()) }

// newScript reads a conversation. The protocol name of an override replaces that of the capture.
func newScript(c *decode.Conversation, override string) (*script, error) {
	s := &script{of: c, protocol: c.Protocol, end: open, origin: -1}
	if d := protocols.Find(override); d != nil {
		s.protocol = d
	}
	if s.protocol.Number != nil {
		s.numbers = s.protocol.Number()
	}
	overhear := s.protocol.Overhear()
	for i := range c.Datagrams {
		d := &c.Datagrams[i]
		if i == 0 {
			s.opened = d.At
		}
		if s.opening == nil && !d.FromServer {
			s.opening = d.Bytes
		}
		err := overhear(d.FromServer, d.Bytes, func(e *codec.Event) { s.event(d, e) })
		switch {
		case errors.Is(err, codec.ErrMalformed), errors.Is(err, codec.ErrUnexpected):
			s.faults++
		case err != nil:
			return nil, fmt.Errorf("%s: %w", s.protocol.Name, err)
		}
	}
	s.settle()
	if override == "" && s.protocol.Speaks != nil && s.version != 0 {
		s.protocol = protocols.Find(s.protocol.Speaks(s.version))
	}
	return s, nil
}

func (s *script) event(d *decode.Datagram, e *codec.Event) {
	switch e.Kind {
	case codec.Asked:
		s.begins = true
		s.hello = codec.Hello{Data: bytes.Clone(e.Payload), Pad: e.Pad}
		s.version = e.Version
	case codec.Received:
		m := e.Message
		m.Payload = bytes.Clone(m.Payload)
		if s.numbers != nil {
			s.numbers.ToCommon(d.FromServer, m.Payload)
		}
		if s.origin < 0 {
			s.origin = d.At
		}
		if d.FromServer {
			s.heard = append(s.heard, line{d.At, m})
		} else {
			s.said = append(s.said, line{d.At, m})
		}
	case codec.Disconnected:
		switch {
		case s.end != open: // the answer to a goodbye
		case d.FromServer:
			s.end = byServer(e.Reason)
		default:
			s.end, s.leftAt = byClient, d.At
		}
	}
}

// settle makes all times relative to the first message.
func (s *script) settle() {
	if s.origin < 0 {
		s.origin = s.opened
	}
	for i := range s.said {
		s.said[i].at -= s.origin
	}
	for i := range s.heard {
		s.heard[i].at -= s.origin
	}
	s.leftAt = max(s.leftAt-s.origin, 0)
	if n := len(s.of.Datagrams); n > 0 {
		s.lasts = s.of.Datagrams[n-1].At - s.origin
	}
}
