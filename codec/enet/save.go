package enet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

const (
	savedKind    = "enet"
	savedVersion = 1
)

var _ = record.Register[savedConn](savedVersion, savedKind)

// savedConn is a Conn as a record. The options are not part of it.
type savedConn struct {
	record.Head
	*Conn
	Terms     []byte        `cbor:"11,keyasint"` // the body of a Connect
	Out       savedOutgoing `cbor:"26,keyasint"`
	In        savedInbox    `cbor:"27,keyasint"`
	Acks      []ack         `cbor:"30,keyasint,omitempty"`
	AcksSince time.Duration `cbor:"40,keyasint,omitempty"`
}

// Save implements codec.Conn.
func (c *Conn) Save(now time.Time, b []byte) []byte {
	return record.AppendAt(now, b, &savedConn{
		Head: record.Head{Kind: savedKind, Version: savedVersion}, Conn: c, Terms: c.terms.append(nil),
		Out: c.saveOutgoing(), In: c.in.save(epoch{now, c.epoch}), Acks: c.acks.list[c.acks.head:], AcksSince: c.acks.since,
	})
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, b []byte) (codec.Conn, error) {
	c := newConn(&p.options, now, secrets{})
	v := savedConn{Conn: c, In: savedInbox{inbox: &c.in}}
	if err := saved.ReadAt(now, b, savedKind, savedVersion, &v); err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	c.in.guesses = !c.summed
	c.terms.parse(v.Terms)
	c.acks.list, c.acks.since = v.Acks, v.AcksSince
	if err := c.restoreOutgoing(&v.Out); err != nil {
		return nil, err
	}
	if err := c.in.restore(epoch{now, c.epoch}, &v.In); err != nil {
		return nil, err
	}
	return c, nil
}

// check holds a record to the bounds of a Conn.
func (v *savedConn) check() error {
	h, t := &v.handshake, &v.throttle
	switch {
	case v.state > closed:
		return saved.Fault("state", v.state)
	case len(v.Terms) != connectLen:
		return saved.Fault("length of the terms", len(v.Terms))
	case v.secrets.ID > maxID || v.secrets.Session > 15 || v.peer > 0xfff || v.sessionIn > 3 || v.sessionOut > 3:
		return saved.Fault("peer ID or session", v.secrets.ID)
	case v.mtu < minMTU || v.mtu > maxMTU:
		return saved.Fault("MTU", v.mtu)
	case v.channels < 0 || v.channels > maxChannels:
		return saved.Fault("number of channels", v.channels)
	case v.window < minWindow || v.window > maxWindow:
		return saved.Fault("window", v.window)
	case h.sent < 0 || h.asked < 0 || len(h.attempts) != min(h.sent, maxAttempts):
		return saved.Fault("number of attempts", len(h.attempts))
	case !h.nextAt.IsZero() && h.interval <= 0:
		return saved.Fault("interval of attempts", h.interval)
	case len(v.Acks) > maxAcks:
		return saved.Fault("number of acknowledgements", len(v.Acks))
	case v.pressure > codec.Refuse:
		return saved.Fault("pressure", v.pressure)
	case int(v.why) >= codec.ReasonCount:
		return saved.Fault("reason", v.why)
	case t.value > throttleScale || t.counter >= throttleScale:
		return saved.Fault("throttle", t.value)
	}
	for _, d := range [...]time.Duration{
		h.interval, v.rtt.Mean, v.rtt.Deviation, v.whole.Mean, v.whole.Deviation,
		t.lowest, t.widest, t.lastRTT, t.lastWidth,
	} {
		if err := saved.Duration("time", d); err != nil {
			return err
		}
	}
	return nil
}
