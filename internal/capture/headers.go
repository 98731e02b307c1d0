package capture

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"tidegate/proxy"
)

// maxWays bounds the directions of TCP streams whose bytes are counted. Beyond it, all counting begins anew.
const maxWays = 1 << 16

// What most systems write into a header.
const (
	hops   = 64
	window = 65535
)

// headers puts those of IP and UDP or TCP before datagrams. The proxy never sees the real ones: these follow from the
// addresses and the length, and for TCP from the frames that came before, each of which becomes a segment.
type headers struct {
	packet gopacket.SerializeBuffer
	sent   map[way]uint32 // bytes
}

// way is a direction of a stream.
type way struct{ from, to netip.AddrPort }

func newHeaders() headers {
	return headers{packet: gopacket.NewSerializeBuffer(), sent: make(map[way]uint32)}
}

// wrap returns a datagram's packet, which is good until the next call.
func (h *headers) wrap(c *proxy.Captured) ([]byte, error) {
	w := way{alike(c.From, c.To), alike(c.To, c.From)}
	if c.Stream {
		segment := h.segment(w, len(c.Bytes))
		return h.serialize(w, layers.IPProtocolTCP, segment, segment.SetNetworkLayerForChecksum, c.Bytes)
	}
	datagram := &layers.UDP{SrcPort: layers.UDPPort(w.from.Port()), DstPort: layers.UDPPort(w.to.Port())}
	return h.serialize(w, layers.IPProtocolUDP, datagram, datagram.SetNetworkLayerForChecksum, c.Bytes)
}

// alike is an address in the family of another: a socket at all addresses of both families may be in neither.
func alike(a, other netip.AddrPort) netip.AddrPort {
	ip := a.Addr().Unmap()
	switch is4 := other.Addr().Unmap().Is4(); {
	case !ip.IsValid() || ip.IsUnspecified() && is4:
		ip = netip.IPv4Unspecified()
	case ip.IsUnspecified():
		ip = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(ip, a.Port())
}

// segment is the header of so many further bytes on a way.
func (h *headers) segment(w way, n int) *layers.TCP {
	if _, known := h.sent[w]; !known && len(h.sent) >= maxWays {
		clear(h.sent)
	}
	segment := &layers.TCP{
		SrcPort: layers.TCPPort(w.from.Port()), DstPort: layers.TCPPort(w.to.Port()),
		Seq: h.sent[w], Ack: h.sent[way{w.to, w.from}], ACK: true, PSH: true, Window: window,
	}
	h.sent[w] += uint32(n)
	return segment
}

// serialize writes a packet: its headers, and what they are for.
func (h *headers) serialize(w way, protocol layers.IPProtocol, transport gopacket.SerializableLayer,
	checksummed func(gopacket.NetworkLayer) error, payload []byte) ([]byte, error) {
	ip := network(w, protocol)
	if err := checksummed(ip); err != nil {
		return nil, err
	}
	err := gopacket.SerializeLayers(h.packet, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		ip, transport, gopacket.Payload(payload))
	return h.packet.Bytes(), err
}

// networkHeader is a header of IP that can be written.
type networkHeader interface {
	gopacket.NetworkLayer
	gopacket.SerializableLayer
}

func network(w way, protocol layers.IPProtocol) networkHeader {
	from, to := w.from.Addr().AsSlice(), w.to.Addr().AsSlice()
	if w.to.Addr().Is4() {
		return &layers.IPv4{Version: 4, TTL: hops, Protocol: protocol, SrcIP: from, DstIP: to}
	}
	return &layers.IPv6{Version: 6, HopLimit: hops, NextHeader: protocol, SrcIP: from, DstIP: to}
}
