// Package capture writes datagrams that passed a proxy as a pcapng file, for Wireshark and for `tidegate decode`. It
// also copies such files while they grow. The package proxy decides which datagrams these are.
//
// Start with Writer, which the proxy's side uses; Copy is for the reader. The format is draft-ietf-opsawg-pcapng: a
// chain of blocks, each with its length.
package capture

import (
	"io"
	"net/netip"
	"runtime"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"tidegate/proxy/relay/recording"
)

// MediaType is the media type of a file.
const MediaType = "application/x-pcapng"

// Names of a file's two interfaces. A packet's direction is relative to the proxy: inbound packets were received by it.
const (
	ClientInterface   = "client"
	UpstreamInterface = "upstream"
)

// Writer writes one file. Each datagram gets IP and UDP or TCP headers for its addresses. If it belongs to a session, a
// comment has the session's ID.
type Writer struct {
	file    *pcapgo.NgWriter
	headers headers
	sides   [2]pcapgo.NgInterfaceStatistics // by interface
}

// NewWriter starts a file. The file names the version that wrote it, and of describes its filter.
func NewWriter(w io.Writer, version, of string) (*Writer, error) {
	about := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Application: "tidegate " + version, OS: runtime.GOOS, Hardware: runtime.GOARCH, Comment: of,
	}}
	file, err := pcapgo.NewNgWriterInterface(w, side(ClientInterface, "between players and the proxy"), about)
	if err == nil {
		_, err = file.AddInterface(side(UpstreamInterface, "between the proxy and game servers"))
	}
	return &Writer{file: file, headers: headers{gopacket.NewSerializeBuffer(), make(map[flow]uint32)}}, err
}

func side(name, about string) pcapgo.NgInterface {
	return pcapgo.NgInterface{Name: name, Description: about, LinkType: layers.LinkTypeRaw}
}

// Write writes everything in a catch, and flushes it.
func (w *Writer) Write(c *recording.Catch) error {
	for i := range c.Captured {
		if err := w.packet(&c.Captured[i]); err != nil {
			return err
		}
	}
	for i, lost := range []uint64{c.LeftOut.Clients, c.LeftOut.Upstreams} {
		if err := w.leftOut(i, lost); err != nil {
			return err
		}
	}
	return w.file.Flush()
}

func (w *Writer) packet(c *recording.Captured) error {
	packet, err := w.headers.wrap(c)
	if err != nil {
		return err
	}
	about := pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}}
	if c.Sent {
		about.Flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	if c.Session != 0 {
		about.Comments = []string{"session " + c.Session.String()}
	}
	info := gopacket.CaptureInfo{Timestamp: c.At, CaptureLength: len(packet), Length: len(packet)}
	if c.Upstream {
		info.InterfaceIndex = 1
	}
	w.sides[info.InterfaceIndex].PacketsReceived++
	return w.file.WritePacketWithOptions(info, packet, about)
}

// leftOut writes the number of an interface's packets that are missing from the file, if it has grown.
func (w *Writer) leftOut(side int, more uint64) error {
	if more == 0 {
		return nil
	}
	s := &w.sides[side]
	s.PacketsReceived += more
	s.PacketsDropped += more
	s.LastUpdate = time.Now()
	return w.file.WriteInterfaceStats(side, *s)
}

// Totals returns the numbers of datagrams written and left out.
func (w *Writer) Totals() (written, leftOut uint64) {
	for i := range w.sides {
		written += w.sides[i].PacketsReceived - w.sides[i].PacketsDropped
		leftOut += w.sides[i].PacketsDropped
	}
	return written, leftOut
}

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
