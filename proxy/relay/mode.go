package relay

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
)

// Any stands for an unknown protocol on a route in ModeRelay. It accepts every datagram as a first datagram. It
// cannot be terminated.
var Any codec.Protocol = anything{}

type anything struct{}

// errAny reports that Any was asked for more than to let a datagram pass.
var errAny = errors.New("a protocol that is not known cannot be terminated")

// anySpec has no messages that another protocol could carry.
var anySpec = codec.Spec{Name: "any", Closed: true}

func (anything) Spec() *codec.Spec { return &anySpec }

func (anything) Sniff([]byte) bool { return true }

func (anything) Accept(_ time.Time, _ netip.AddrPort, _, reply []byte) (codec.Conn, []byte, error) {
	return nil, reply, errAny
}

func (anything) Refuse(_, reply []byte, _ codec.Reason) []byte { return reply }

func (anything) Dial(time.Time, netip.AddrPort, codec.Hello) codec.Conn { panic(errAny) }

func (anything) Restore(time.Time, codec.Addresser, []byte) (codec.Conn, error) { return nil, errAny }

// NetherNet stands for NetherNet's clients. A client joins over HTTP first. Its first datagram names the join, and
// proves with the server's password that the client has got the answer. On a route in ModeTerminate, its connection is
// a nethernet.Conn above a stack, and that to a server a nethernet.Call.
var NetherNet codec.Protocol = edgeProtocol{}

// edgeProtocol is as opaque as Any, except for the first datagram.
type edgeProtocol struct{ anything }

func (edgeProtocol) Spec() *codec.Spec { return &nethernet.Spec }

func (edgeProtocol) Sniff(datagram []byte) bool { return nethernet.KindOf(datagram) == nethernet.STUN }
