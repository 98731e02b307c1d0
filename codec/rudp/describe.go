package rudp

import (
	"fmt"
	"strings"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/internal/words"
)

var kindNames = [kindCount]string{
	"connection request", "connection accept", "connection refuse", "disconnection notify", "keep alive", "data",
}

// Explain explains datagrams and their data. Those of both sides have the same layout. Errors wrap
// codec.ErrMalformed, also for a wrong checksum. Real peers can send a datagram that no peer can receive, if their game
// asks for it. Only its length shows it.
func (*Protocol) Explain(*explain.Memory) explain.Conversation { return describe }

func describe(_ bool, datagram []byte) (text string, content []string, err error) {
	if len(datagram) > codec.MaxDatagram {
		return fmt.Sprintf("%d bytes, more than any peer receives: lost", len(datagram)), nil, nil
	}
	var p packet
	if err := p.parse(datagram); err != nil {
		return "", nil, err
	}
	text = fmt.Sprintf("%s #%d, application %d, acknowledges %s, checksum good",
		kindNames[p.kind], p.seq, p.app, p.acks.describe())
	switch {
	case p.kind == kindAccept:
		var t terms
		if err := t.parse(p.data); err != nil {
			return "", nil, err
		}
		content = []string{fmt.Sprintf("%s a second, version %d", words.Count(int(t.rate), "packet"), t.version)}
	case len(p.data) > 0:
		content = []string{fmt.Sprintf("%s: %.16x", words.Count(len(p.data), "byte"), p.data)}
	}
	return text, content, nil
}

// describe lists the packet numbers that an acknowledgement covers, newest first.
func (a *acks) describe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "#%d", a.last)
	for back := seq(1); back <= ackReach; back++ {
		if !a.has(a.last - back) {
			continue
		}
		first := back
		for back < ackReach && a.has(a.last-back-1) {
			back++
		}
		fmt.Fprintf(&text, ", #%d", a.last-first)
		if back > first {
			fmt.Fprintf(&text, "-#%d", a.last-back)
		}
	}
	return text.String()
}
