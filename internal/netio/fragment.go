package netio

// FragmentControl is a Socket that was opened with SocketOptions.DontFragment and can leave that off again.
type FragmentControl interface {
	Socket
	// AllowFragments lets routers fragment what is sent from now on.
	AllowFragments() error
}
