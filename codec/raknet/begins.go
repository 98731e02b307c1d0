package raknet

// Begins implements codec.Beginner: clients send the requests of the handshake, and datagrams of a connection.
func (p *Protocol) Begins(first byte) bool { return isForServers(first) || first&bitValid != 0 }

// Opens implements codec.Beginner: the requests of the handshake, and pings, are of no connection.
func (p *Protocol) Opens(first byte) bool { return isForServers(first) }
