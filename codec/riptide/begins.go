package riptide

// Begins implements codec.Beginner: the first byte has the type, and clients refuse nobody and tell of nobody.
func (p *Protocol) Begins(first byte) bool {
	k := p.dialect.kindOf([]byte{first})
	return k <= kindWelcome && k != kindReject
}

// Opens implements codec.Beginner: a client says Connect until it is answered.
func (p *Protocol) Opens(first byte) bool { return p.dialect.kindOf([]byte{first}) == kindConnect }
