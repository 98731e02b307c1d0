package netio

// Prober is a Socket that was opened with SocketOptions.DontFragment and can leave that off again.
type Prober interface {
	Socket
	// AllowFragments lets routers fragment what is sent from now on.
	AllowFragments() error
}
