package decode

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// recordOf makes a record of a packet. It ignores fragments, and packets other than UDP and TCP with data.
func recordOf(packet gopacket.Packet, known streams) *record {
	from, to, ok := addresses(packet)
	if !ok {
		return &record{ignored: true}
	}
	switch transport := packet.TransportLayer().(type) {
	case *layers.UDP:
		r := &record{data: transport.Payload}
		r.between("udp", netip.AddrPortFrom(from, uint16(transport.SrcPort)),
			netip.AddrPortFrom(to, uint16(transport.DstPort)))
		return r
	case *layers.TCP:
		r := &record{stream: true}
		r.between("tcp", netip.AddrPortFrom(from, uint16(transport.SrcPort)),
			netip.AddrPortFrom(to, uint16(transport.DstPort)))
		known.order(r, transport)
		return r
	}
	return &record{ignored: true}
}

// addresses returns the addresses of the packet's innermost IP header.
func addresses(packet gopacket.Packet) (from, to netip.Addr, ok bool) {
	switch network := packet.NetworkLayer().(type) {
	case *layers.IPv4:
		from, _ = netip.AddrFromSlice(network.SrcIP)
		to, ok = netip.AddrFromSlice(network.DstIP)
	case *layers.IPv6:
		from, _ = netip.AddrFromSlice(network.SrcIP)
		to, ok = netip.AddrFromSlice(network.DstIP)
	}
	return from, to, ok
}

// between sets the two ends. A conversation has one name for both directions.
func (r *record) between(network string, from, to netip.AddrPort) {
	r.from, r.to = from.String(), to.String()
	if to.Compare(from) < 0 {
		from, to = to, from
	}
	r.flow = network + " " + from.String() + " " + to.String()
}

// keep reports whether the packet passes the port filter, which also tells the server's side. Port 0 passes all
// packets.
func (r *record) keep(packet gopacket.Packet, port uint16) bool {
	if port == 0 {
		return true
	}
	from, to := ports(packet)
	switch {
	case from == port && to != port:
		r.side = serverSide
	case to == port && from != port:
		r.side = clientSide
	}
	return from == port || to == port
}

func ports(packet gopacket.Packet) (from, to uint16) {
	switch transport := packet.TransportLayer().(type) {
	case *layers.UDP:
		return uint16(transport.SrcPort), uint16(transport.DstPort)
	case *layers.TCP:
		return uint16(transport.SrcPort), uint16(transport.DstPort)
	}
	return 0, 0
}
