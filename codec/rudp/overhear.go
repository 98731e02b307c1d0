package rudp

import "tidegate/codec"

// overhearing reads the messages of one connection as a third party. Like a receiver it ignores each packet that is
// not newer than all before it. A message is what a packet carries: the wire does not separate joined messages.
type overhearing struct {
	fromClient, fromServer newest
	accepted               bool
	app                    uint16 // of the client's request
}

// newest is the newest number of a direction.
type newest struct {
	seq   seq
	known bool
}

// takes reports whether a packet is newer than all before it.
func (n *newest) takes(s seq) bool {
	if n.known && s.minus(n.seq) <= 0 {
		return false
	}
	*n = newest{s, true}
	return true
}

// hear is a registry.Overhear.
func (o *overhearing) hear(fromServer bool, datagram []byte, take func(*codec.Event)) error {
	var p packet
	if err := p.parse(datagram); err != nil {
		return err
	}
	way := &o.fromClient
	if fromServer {
		way = &o.fromServer
	}
	switch p.kind {
	case kindRequest:
		*o = overhearing{fromClient: newest{p.seq, true}, app: p.app}
		take(&codec.Event{Kind: codec.Asked})
		return nil
	case kindRefuse:
		o.refuse(fromServer, &p, take)
		return nil
	}
	if !way.takes(p.seq) {
		return nil
	}
	switch p.kind {
	case kindAccept:
		o.accepted = true
	case kindNotify:
		take(&codec.Event{Kind: codec.Disconnected, Reason: codec.Closed})
	case kindData:
		m := codec.Message{Payload: p.data, Mode: codec.UnreliableSequenced}
		take(&codec.Event{Kind: codec.Received, Message: m})
	}
	return nil
}

// refuse handles a Refuse, which ends no accepted session.
func (o *overhearing) refuse(fromServer bool, p *packet, take func(*codec.Event)) {
	if !fromServer || o.accepted {
		return
	}
	reason := codec.Rejected
	if p.app != o.app {
		reason = codec.Incompatible
	}
	take(&codec.Event{Kind: codec.Disconnected, Reason: reason})
}

// retrace is a registry.Retrace: a client has the application ID of the capture, and each message has a packet of its
// own.
func retrace(options any, opening []byte) {
	s := options.(*Settings)
	s.MaxJoined = 1
	var p packet
	if p.parse(opening) == nil {
		s.AppID = p.app
	}
}
