package netio

import "cmp"

// Kernel buffer sizes are limits, not allocations: the kernel takes memory only for waiting datagrams. Linux charges
// about 768 bytes for a small datagram and 2,304 for a full one, and allows twice the configured size. Much larger
// buffers would turn overload into delay.
const (
	// listenBuffer is the size of both buffers of a listening socket.
	listenBuffer = 2 << 20
	// dialBuffer holds the data that one server sends before its loop reads. On Linux it has room for 910 full
	// datagrams. A RakNet server sends up to 512 at once. The usual default of 208 KiB has room for 92.
	dialBuffer = 1 << 20
	// sharedBuffers is the factor for the receive buffer of a descriptor that dialed sockets share.
	sharedBuffers = 16
	mostBuffer    = 1 << 30 // bytes, the largest size that a kernel accepts
)

// withListenDefaults fills in the defaults of a listening socket.
func (o SocketOptions) withListenDefaults() SocketOptions {
	o.ReceiveBuffer, o.SendBuffer = cmp.Or(o.ReceiveBuffer, listenBuffer), cmp.Or(o.SendBuffer, listenBuffer)
	return o
}

// withDialDefaults fills in the defaults of a dialed socket. It sends little at once, so the system's default send
// buffer is enough.
func (o SocketOptions) withDialDefaults() SocketOptions {
	o.ReceiveBuffer = cmp.Or(o.ReceiveBuffer, dialBuffer)
	return o
}

// forSharing enlarges the buffers for a descriptor that dialed sockets share.
func (o SocketOptions) forSharing() SocketOptions {
	o.ReceiveBuffer, o.SendBuffer = SharedBuffer(o.ReceiveBuffer), cmp.Or(o.SendBuffer, listenBuffer)
	return o
}

// SharedBuffer returns the receive buffer of a descriptor that dialed sockets with this ReceiveBuffer share.
func SharedBuffer(each int) int { return min(each, mostBuffer/sharedBuffers) * sharedBuffers }
