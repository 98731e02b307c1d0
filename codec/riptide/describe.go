package riptide

import (
	"errors"
	"fmt"
	"strings"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/internal/words"
)

// Explain explains datagrams, or messages of a stream. Errors wrap codec.ErrMalformed. A datagram that connections
// take, and that no honest peer sends, has explain.ErrUnusual, so that datagrams of the other dialect stand out.
func (p *Protocol) Explain(*explain.Memory) explain.Conversation {
	return func(fromServer bool, datagram []byte) (string, []string, error) {
		return describe(p.options.Version, fromServer, datagram)
	}
}

func describe(v Version, fromServer bool, datagram []byte) (text string, content []string, err error) {
	if len(datagram) == 0 {
		return "", nil, codec.ErrMalformed
	}
	w := &dialects[v]
	text, content, err = w.describe(fromServer, datagram)
	if err != nil && !errors.Is(err, explain.ErrUnusual) {
		return "", nil, err
	}
	return text, content, err
}

var errUnusual = fmt.Errorf("%w: %w", explain.ErrUnusual, codec.ErrMalformed)

// describe explains a datagram that is not empty. Its other results are void if there is an error.
func (w *dialect) describe(fromServer bool, d []byte) (text string, content []string, err error) {
	switch k := w.kindOf(d); {
	case k == kindUnreliable, k == kindReliable:
		return w.describeUser(d)
	case k == kindNotify:
		return w.describeNotify(d)
	case k == kindAck:
		text, err = w.describeAck(d)
	case k == kindConnect:
		return w.describeConnect(fromServer, d)
	case k == kindHeartbeat:
		text, err = w.describeHeartbeat(fromServer, d)
	case k == kindWelcome, fromServer && (k == kindClientConnected || k == kindClientDisconnected || k == kindQuestion):
		text, err = w.describeNote(fromServer, d)
	case fromServer && (k == kindReject || k == kindDisconnect):
		return w.describeGoodbye(d)
	case k == kindDisconnect:
		text, err = "disconnect", exactly(d, 1)
	default:
		err = codec.ErrMalformed
	}
	return text, nil, err
}

func (w *dialect) describeUser(d []byte) (text string, content []string, err error) {
	var h userHeader
	at, err := h.parse(w, d)
	if err != nil {
		return "", nil, err
	}
	text = "unreliable"
	if h.reliable {
		text = fmt.Sprintf("reliable #%d", h.seq)
	}
	return text, []string{fmt.Sprintf("message %d, %s", h.id, w.describePayload(d, at))}, nil
}

func (w *dialect) describeNotify(d []byte) (text string, content []string, err error) {
	var h notifyHeader
	if err := h.parse(d); err != nil {
		return "", nil, err
	}
	text = fmt.Sprintf("notify #%d, acknowledges %s", h.seq, describeAcked(h.last, uint16(h.bits)))
	return text, []string{w.describePayload(d, notifyHeaderLen)}, nil
}

func (w *dialect) describeConnect(fromServer bool, d []byte) (text string, content []string, err error) {
	if fromServer {
		return "pending: the game is deciding", nil, exactly(d, 1)
	}
	return "connect", w.describeData(d, 0), nil
}

func (w *dialect) describeHeartbeat(fromServer bool, d []byte) (string, error) {
	if fromServer {
		ping, err := parseHeartbeatAnswer(w, d)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("heartbeat answer %d", ping), exactly(d, 2)
	}
	var h heartbeat
	if err := h.parse(w, d); err != nil {
		return "", err
	}
	if h.rtt < 0 {
		return fmt.Sprintf("heartbeat %d, round trip unknown", h.ping), exactly(d, 4)
	}
	return fmt.Sprintf("heartbeat %d, round trip %d ms", h.ping, h.rtt), exactly(d, 4)
}

// describeNote explains a Welcome, which the client repeats as a confirmation, or an announcement of another client.
func (w *dialect) describeNote(fromServer bool, d []byte) (string, error) {
	var n clientNote
	if err := n.parse(w, d); err != nil {
		return "", err
	}
	what := "welcome: you are client %d"
	switch {
	case n.kind == kindQuestion: // of Tidegate's
		return fmt.Sprintf("question whether the client has left, as reliable #%d", n.seq), exactly(d, 5)
	case n.kind == kindClientConnected:
		what = "client %d has connected"
	case n.kind == kindClientDisconnected:
		what = "client %d has disconnected"
	case !fromServer:
		what = "welcome received: I am client %d"
	}
	return fmt.Sprintf("reliable #%d, "+what, n.seq, n.client), exactly(d, 5)
}

func (w *dialect) describeGoodbye(d []byte) (text string, content []string, err error) {
	var f goodbye
	if err := f.parse(w, d); err != nil {
		return "", nil, err
	}
	content = w.describeData(d, goodbyeLen)
	if content != nil && !f.carriesData() {
		err = errUnusual
	}
	switch {
	case f.kind == kindReject && f.reason == rejectPending:
		text = "pending: the game is deciding"
	case f.kind == kindReject:
		text = "reject: " + f.meaning().String()
	default:
		text = "disconnect: " + f.meaning().String()
	}
	return text, content, err
}

// describeData explains the data that a game may add, from byte i of d's body on.
func (w *dialect) describeData(d []byte, i int) []string {
	if payload, _ := w.payload(nil, d, i); len(payload) == 0 {
		return nil
	}
	return []string{"data, " + w.describePayload(d, i)}
}

// describePayload returns the length and the beginning of the payload from byte i of d's body on.
func (w *dialect) describePayload(d []byte, i int) string {
	payload, pad := w.payload(nil, d, i)
	if pad > 0 {
		return fmt.Sprintf("%s: %.16x", words.Count(len(payload)*8-int(pad), "bit"), payload)
	}
	return fmt.Sprintf("%s: %.16x", words.Count(len(payload), "byte"), payload)
}

// exactly returns an error unless datagram d has the constant size of its message. Connections ignore further bytes.
func exactly(d []byte, size int) error {
	if len(d) != size {
		return errUnusual
	}
	return nil
}

func (w *dialect) describeAck(d []byte) (string, error) {
	var a ack
	if err := a.parse(w, d); err != nil {
		return "", err
	}
	size := 5
	isExtra := w.wholeBytes && d[0] == typeAckExtra
	if isExtra || !w.wholeBytes && len(d) == 7 { // 2.1.0 to 2.1.2 always write 7 bytes
		size = 7
	}
	text := "ack of " + describeAcked(a.last, a.bits)
	if a.forSeq != a.last {
		text += fmt.Sprintf(", caused by #%d", a.forSeq)
	}
	return text, exactly(d, size)
}

// describeAcked lists the numbers that an acknowledgement covers, oldest first: last-(i+1) for each bit i, and last.
func describeAcked(last seq, bits uint16) string {
	var ranges []string
	all := uint32(bits)<<1 | 1 // bit i: last-i
	for i := 16; i >= 0; i-- {
		if all>>i&1 == 0 {
			continue
		}
		first := i
		for i > 0 && all>>(i-1)&1 != 0 {
			i--
		}
		text := fmt.Sprintf("#%d", last-seq(first))
		if i < first {
			text += fmt.Sprintf("-#%d", last-seq(i))
		}
		ranges = append(ranges, text)
	}
	return strings.Join(ranges, ", ")
}
