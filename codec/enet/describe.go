package enet

import (
	"bytes"
	"fmt"
	"strings"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/internal/words"
)

// Explain explains the datagrams of one conversation, and each command in them, up to the first that is malformed.
func (*Protocol) Explain(*explain.Memory) explain.Conversation { return new(describer).describe }

// describer learns from the Connect whether datagrams have a checksum.
type describer struct {
	summed    bool
	connectID [4]byte
	started   bool
	coders    coders
}

// describe returns errors that wrap codec.ErrMalformed.
func (d *describer) describe(_ bool, datagram []byte) (text string, content []string, err error) {
	var h header
	rest, good, err := d.open(&h, datagram)
	if err != nil {
		return "", nil, err
	}
	text = h.describe()
	switch {
	case rest == nil:
		return text + " by the game", nil, nil
	case good:
		text += ", checksum good"
	}
	var c command
	for len(rest) > 0 {
		ended := c.kind == kindDisconnect
		if rest, err = c.parse(rest); err != nil {
			if ended { // its receiver has left
				err = fmt.Errorf("%w: %w", explain.ErrUnusual, err)
			}
			break
		}
		content = append(content, c.describe())
	}
	switch {
	case len(content) == 0 && err != nil:
		return "", nil, err
	case len(content) == 0 && !d.started:
		return "", nil, codec.ErrMalformed
	case len(content) == 0:
		content = []string{"no command"}
	}
	return text, content, err
}

// open reads the header of a datagram, and returns its commands. It reports whether they have a right checksum.
func (d *describer) open(h *header, datagram []byte) (commands []byte, good bool, err error) {
	rest, err := h.parse(datagram)
	if err != nil {
		return nil, false, err
	}
	at := len(datagram) - len(rest)
	if h.compressed {
		plain, ok := d.unpack(h, datagram, at)
		if !ok && !d.started { // otherwise any bytes would be accepted
			return nil, false, codec.ErrMalformed
		}
		if !ok {
			return nil, false, nil
		}
		datagram, rest = plain, plain[at:]
	}
	d.learn(h, datagram, at)
	if !d.summed {
		return rest, false, nil
	}
	connectID := d.connectID[:]
	if h.peer == noPeer {
		connectID = nil
	}
	switch good = checksumFits(datagram, at, connectID); {
	case len(rest) < checksumLen:
		return nil, false, codec.ErrMalformed
	case !good && d.started:
		return nil, false, fmt.Errorf("%w: checksum differs", codec.ErrMalformed)
	}
	return rest[checksumLen:], good, nil
}

// unpack returns a compressed datagram as it was before.
func (d *describer) unpack(h *header, datagram []byte, at int) ([]byte, bool) {
	if h.peer == noPeer {
		return (&Options{coders: &d.coders}).unpackConnect(nil, datagram, at)
	}
	if d.summed {
		at += checksumLen
	}
	if at > len(datagram) {
		return nil, false
	}
	return d.coders.unpack(bytes.Clone(datagram[:at]), datagram[at:], codec.MaxDatagram)
}

// learn learns the format of later datagrams from a Connect.
func (d *describer) learn(h *header, datagram []byte, at int) {
	if h.peer != noPeer {
		return
	}
	body := datagram[at:]
	switch {
	case len(body) == commandLen+connectLen:
		d.summed, d.started = false, true
	case len(body) == checksumLen+commandLen+connectLen && checksumFits(datagram, at, nil):
		d.summed, d.started = true, true
		copy(d.connectID[:], body[len(body)-8:])
	}
}

func (h *header) describe() string {
	text := fmt.Sprintf("to peer %d, session %d", h.peer, h.session)
	if h.peer == noPeer {
		text = "to a peer without an ID"
	}
	if h.timed {
		text += fmt.Sprintf(", at %d ms", h.time)
	}
	if h.compressed {
		text += ", compressed"
	}
	return text
}

var kindNames = [kindCount]string{
	"", "acknowledge", "connect", "verify connect", "disconnect", "ping", "reliable", "unreliable", "fragment",
	"unsequenced", "bandwidth limit", "throttle configure", "unreliable fragment",
}

func (c *command) describe() string {
	var text strings.Builder
	text.WriteString(kindNames[c.kind])
	if c.channel != controlChannel {
		fmt.Fprintf(&text, " on channel %d", c.channel)
	}
	switch c.kind {
	case kindAck:
		fmt.Fprintf(&text, " #%d, sent at %d ms", be.Uint16(c.body), be.Uint16(c.body[2:]))
		return text.String()
	case kindUnreliable:
		fmt.Fprintf(&text, " #%d after #%d", be.Uint16(c.body), c.seq)
	case kindUnsequenced:
		fmt.Fprintf(&text, " #%d", be.Uint16(c.body))
	default:
		fmt.Fprintf(&text, " #%d", c.seq)
	}
	switch c.kind {
	case kindConnect, kindVerify:
		var t connect
		t.parse(c.body)
		fmt.Fprintf(&text, ": my ID is %d, MTU %d, %s", t.id, t.mtu, words.Count(int(t.channels), "channel"))
		if c.kind == kindConnect {
			fmt.Fprintf(&text, ", data %d", t.data)
		}
	case kindDisconnect:
		fmt.Fprintf(&text, ": data %d", be.Uint32(c.body))
	case kindBandwidth:
		fmt.Fprintf(&text, ": %d in, %d out", be.Uint32(c.body), be.Uint32(c.body[4:]))
	case kindFragment, kindUnreliableFragment:
		f := fragment{count: be.Uint32(c.body[4:]), index: be.Uint32(c.body[8:]), total: be.Uint32(c.body[12:])}
		fmt.Fprintf(&text, ": part %d of %d, message of %s", f.index+1, f.count, words.Count(int(f.total), "byte"))
	case kindReliable, kindUnreliable, kindUnsequenced:
		fmt.Fprintf(&text, ": %s", words.Count(len(c.payload), "byte"))
		if len(c.payload) > 0 {
			fmt.Fprintf(&text, ": %.16x", c.payload)
		}
	}
	return text.String()
}
