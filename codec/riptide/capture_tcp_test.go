package riptide

import (
	"encoding/binary"
	"testing"
)

// unframe turns the stream reads of a TCP capture into messages. Each message has the time of the read that completed
// it. docs/protocols/riptide/2.0.md#tcp
func (c *capture) unframe(t *testing.T) {
	t.Helper()
	type stream struct {
		client int
		from   string
	}
	rests := map[stream][]byte{}
	incomplete := 0 // bytes of all incomplete rests
	reads := c.Lines
	c.Lines = nil
	for _, read := range reads {
		s := stream{read.Conn, read.From}
		incomplete -= len(rests[s])
		rest := append(rests[s], read.Datagram...)
		for message := c.cut(&rest); message != nil; message = c.cut(&rest) {
			l := read
			l.Datagram = message
			c.Lines = append(c.Lines, l)
		}
		rests[s] = rest
		incomplete += len(rest)
	}
	if incomplete > 0 {
		t.Fatalf("%s/%s: streams end with %d bytes of messages that are not whole", c.version, c.scenario, incomplete)
	}
}

// cut takes the first message off a stream, or returns nil if it is incomplete. Its length precedes it.
func (c *capture) cut(stream *[]byte) (message []byte) {
	b := *stream
	head := map[Version]int{V20: 2, V22: 4}[c.dialect()]
	if len(b) < head {
		return nil
	}
	length := int(binary.LittleEndian.Uint16(b))
	if head == 4 {
		length = int(binary.LittleEndian.Uint32(b))
	}
	if len(b) < head+length {
		return nil
	}
	*stream = b[head+length:]
	return b[head : head+length]
}
