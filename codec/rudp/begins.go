package rudp

// Begins implements codec.Beginner: every packet begins with the application's ID.
func (p *Protocol) Begins(first byte) bool { return first == byte(p.options.AppID>>8) }
