package proxy

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
)

// Mode is what a route makes of datagrams.
type Mode uint8

// Modes.
const (
	// ModeTerminate ends each side's protocol and carries messages.
	ModeTerminate Mode = iota
	// ModeRelay passes datagrams as they are. First ones are looked at by the listener's protocols, and nothing after.
	ModeRelay
)

// Any stands for whatever protocol a route in ModeRelay passes: it takes every datagram for an opening one. It cannot
// be terminated.
var Any codec.Protocol = anything{}

type anything struct{}

// errAny: Any was asked to do more than to let a datagram pass.
var errAny = errors.New("a protocol that is not known cannot be terminated")

// anySpec says that there are no messages that another protocol could carry.
var anySpec = codec.Spec{Name: "any", Closed: true}

func (anything) Spec() *codec.Spec { return &anySpec }

func (anything) Sniff([]byte) bool { return true }

func (anything) Accept(_ time.Time, _ netip.AddrPort, _, reply []byte) (codec.Conn, []byte, error) {
	return nil, reply, errAny
}

func (anything) Refuse(_, reply []byte, _ codec.Reason) []byte { return reply }

func (anything) Dial(time.Time, netip.AddrPort, codec.Hello) codec.Conn { panic(errAny) }
