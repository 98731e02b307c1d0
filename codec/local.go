package codec

// Local is a Protocol whose connections share memory where one loop has them all.
type Local interface {
	Protocol
	// Local is the same protocol for one loop: neither it nor its Conns are safe for concurrent use with each other.
	Local() Protocol
}
