package netio

import (
	"net/netip"
	"os"
)

// Handover is what a Poller has besides where its sockets can come from another process and go to one: from a service
// manager that opened them, to the next release of the program. Only the epoll backend has it.
type Handover interface {
	// Adopt takes over a UDP socket that is bound already. The file stays the caller's.
	Adopt(f *os.File, o SocketOptions) (Socket, error)
	// AdoptStream takes over a TCP socket that listens already. The file stays the caller's.
	AdoptStream(f *os.File, o StreamOptions) (Socket, error)
	// File returns a copy of a listening socket's descriptor, for another process.
	File(s Socket) (*os.File, error)
	// ConnectPeer opens a socket of its own for one peer of a listening UDP socket, or LocalSocket, with the same address and Owner: from then on
	// the kernel gives it what that peer sends, whoever else listens there. What it was given of other peers' before it
	// was their own is h's, as if s had received it. Not to be called by a Handler.
	ConnectPeer(s Socket, peer netip.AddrPort, h Handler) (Socket, error)
	// StopReceiving has a listening socket receive no more. A UDP socket can still send, and be closed. A TCP socket is closed, so
	// that only its copies accept; connections that are there go on.
	StopReceiving(s Socket)
}
