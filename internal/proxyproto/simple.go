package proxyproto

// A header of the Simple Proxy Protocol (https://developers.cloudflare.com/spectrum/reference/simple-proxy-protocol-header/).
// IPv4 addresses are mapped into IPv6. Answers to the proxy carry the same header.
//
//	0..1    magic number
//	2..17   client's address
//	18..33  proxy's address
//	34..35  client's port
//	36..37  proxy's port
const (
	simpleMagic = 0x56ec
	simpleLen   = 38
)

func hasSimple(d []byte) bool { return len(d) >= simpleLen && be.Uint16(d) == simpleMagic }

func (h *Header) appendSimple(b []byte) []byte {
	b = be.AppendUint16(b, simpleMagic)
	b = appendAddrs16(b, h.Client.Addr(), h.Proxy.Addr())
	b = be.AppendUint16(b, h.Client.Port())
	return be.AppendUint16(b, h.Proxy.Port())
}

// parseSimple reads a datagram that has the header.
func parseSimple(d []byte) (h Header, rest []byte) {
	return Header{Format: Simple, Client: addrPort(d[2:18], d[34:]), Proxy: addrPort(d[18:34], d[36:])}, d[simpleLen:]
}
