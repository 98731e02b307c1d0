package rudp

// Begins implements codec.Beginner: every packet begins with the application's ID.
func (p *Protocol) Begins(first byte) bool { return first == byte(p.options.AppID>>8) }

// Opens implements codec.Beginner: the first packet of a session begins as all others do.
func (p *Protocol) Opens(byte) bool { return false }
