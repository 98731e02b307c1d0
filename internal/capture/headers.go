package capture

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"tidegate/proxy/relay/recording"
)

// maxFlows bounds the directions of TCP streams whose bytes are counted. Beyond it, counting starts anew.
const maxFlows = 1 << 16

// Header values that most systems use.
const (
	hops   = 64
	window = 65535
)

// headers writes IP and UDP or TCP headers before datagrams. The proxy never sees the real headers. These follow from
// the addresses and the length, and for TCP from the earlier frames: each frame becomes a segment.
type headers struct {
	packet gopacket.SerializeBuffer
	sent   map[flow]uint32 // bytes sent so far
}

// flow is one direction of a stream.
type flow struct{ from, to netip.AddrPort }

// wrap returns a datagram's packet, valid until the next call.
func (h *headers) wrap(c *recording.Captured) ([]byte, error) {
	f := flow{alike(c.From, c.To), alike(c.To, c.From)}
	if c.Stream {
		segment := h.segment(f, len(c.Bytes))
		return h.serialize(f, layers.IPProtocolTCP, segment, segment.SetNetworkLayerForChecksum, c.Bytes)
	}
	datagram := &layers.UDP{SrcPort: layers.UDPPort(f.from.Port()), DstPort: layers.UDPPort(f.to.Port())}
	return h.serialize(f, layers.IPProtocolUDP, datagram, datagram.SetNetworkLayerForChecksum, c.Bytes)
}

// alike returns an address in the family of another: the address of a dual-stack socket may be unspecified.
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

// segment returns the TCP header of the next n bytes of a flow.
func (h *headers) segment(f flow, n int) *layers.TCP {
	if _, known := h.sent[f]; !known && len(h.sent) >= maxFlows {
		clear(h.sent)
	}
	segment := &layers.TCP{
		SrcPort: layers.TCPPort(f.from.Port()), DstPort: layers.TCPPort(f.to.Port()),
		Seq: h.sent[f], Ack: h.sent[flow{f.to, f.from}], ACK: true, PSH: true, Window: window,
	}
	h.sent[f] += uint32(n)
	return segment
}

// serialize writes a packet: its headers and the payload.
func (h *headers) serialize(f flow, protocol layers.IPProtocol, transport gopacket.SerializableLayer,
	checksummed func(gopacket.NetworkLayer) error, payload []byte) ([]byte, error) {
	ip := network(f, protocol)
	if err := checksummed(ip); err != nil {
		return nil, err
	}
	err := gopacket.SerializeLayers(h.packet, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		ip, transport, gopacket.Payload(payload))
	return h.packet.Bytes(), err
}

// networkHeader is an IP header that can be written.
type networkHeader interface {
	gopacket.NetworkLayer
	gopacket.SerializableLayer
}

func network(f flow, protocol layers.IPProtocol) networkHeader {
	from, to := f.from.Addr().AsSlice(), f.to.Addr().AsSlice()
	if f.to.Addr().Is4() {
		return &layers.IPv4{Version: 4, TTL: hops, Protocol: protocol, SrcIP: from, DstIP: to}
	}
	return &layers.IPv6{Version: 6, HopLimit: hops, NextHeader: protocol, SrcIP: from, DstIP: to}
}
