package netio

// SharesPorts reports whether several Pollers of a backend can listen on one address (SocketOptions.ReusePort).
func SharesPorts(b Backend) bool { return b.Used() != Portable }

// New opens a Poller with a backend.
func New(o Options) (Poller, error) {
	if o.Backend == Portable {
		return newPortable(o), nil
	}
	return newNative(o)
}

// Used returns the backend that New opens for b on this platform.
func (b Backend) Used() Backend {
	if b == Portable {
		return Portable
	}
	return native
}
