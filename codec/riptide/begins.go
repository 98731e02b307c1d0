package riptide

// Begins implements codec.Beginner: the first byte has the type, and clients refuse nobody and tell of nobody.
func (p *Protocol) Begins(first byte) bool {
	k := p.dialect.kindOf([]byte{first})
	return k <= kindWelcome && k != kindReject
}
