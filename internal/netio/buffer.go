package netio

// The kernel's buffers. Their size is a limit and no memory: the kernel takes memory only for datagrams that wait.
// Linux charges a small datagram with about 768 bytes and a full one with 2,304, and allows twice the size that was
// set. Much more than needed would turn overload into delay.
const (
	// listenBuffer is for a socket that listens, both ways.
	listenBuffer = 2 << 20
	// dialBuffer is for what one server sends before its loop reads it. Linux has room for 910 full datagrams then; a
	// RakNet server sends up to 512 at once. The usual default of 208 KiB has room for 92.
	dialBuffer = 1 << 20
	// sharedBuffers is how many times as much a descriptor gets that dialed sockets share.
	sharedBuffers = 16
	mostBuffer    = 1 << 30 // that a kernel can be asked for
)

// withListenDefaults fills in the defaults of a listening socket.
func (o SocketOptions) withListenDefaults() SocketOptions {
	if o.ReceiveBuffer == 0 {
		o.ReceiveBuffer = listenBuffer
	}
	if o.SendBuffer == 0 {
		o.SendBuffer = listenBuffer
	}
	return o
}

// withDialDefaults fills in the defaults of a dialed socket. It sends little at once: the system's default does.
func (o SocketOptions) withDialDefaults() SocketOptions {
	if o.ReceiveBuffer == 0 {
		o.ReceiveBuffer = dialBuffer
	}
	return o
}

// forSharing enlarges the buffers for a descriptor that dialed sockets share.
func (o SocketOptions) forSharing() SocketOptions {
	o.ReceiveBuffer = SharedBuffer(o.ReceiveBuffer)
	if o.SendBuffer == 0 {
		o.SendBuffer = listenBuffer
	}
	return o
}

// SharedBuffer is the receive buffer of a descriptor that dialed sockets with the given ReceiveBuffer share.
func SharedBuffer(each int) int { return min(each, mostBuffer/sharedBuffers) * sharedBuffers }
