// Package capture writes datagrams that passed a proxy as a pcapng file, for Wireshark and for `tidegate decode`, and passes
// such files on as they are being written. Which datagrams these are, package proxy decides.
//
// Start with Writer, which the proxy has; Copy is for whoever asked it. The format is that of
// draft-ietf-opsawg-pcapng: a chain of blocks, each with its length.
package capture

import (
	"io"
	"runtime"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"tidegate/proxy"
)

// MediaType is that of a file.
const MediaType = "application/x-pcapng"

// Names of a file's two interfaces. A packet's direction is that of its interface: inbound is what the proxy received.
const (
	ClientInterface   = "client"
	UpstreamInterface = "upstream"
)

// Writer writes one file. Each datagram has the headers of IP and UDP or TCP that its addresses ask for, and where it
// belongs to a session, a comment with its ID.
type Writer struct {
	file    *pcapgo.NgWriter
	headers headers
	sides   [2]pcapgo.NgInterfaceStatistics // by interface
}

// NewWriter begins a file that says by which version it was written, and what it is of.
func NewWriter(w io.Writer, version, of string) (*Writer, error) {
	about := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Application: "tidegate " + version, OS: runtime.GOOS, Hardware: runtime.GOARCH, Comment: of,
	}}
	file, err := pcapgo.NewNgWriterInterface(w, side(ClientInterface, "between players and the proxy"), about)
	if err == nil {
		_, err = file.AddInterface(side(UpstreamInterface, "between the proxy and game servers"))
	}
	return &Writer{file: file, headers: newHeaders()}, err
}

func side(name, about string) pcapgo.NgInterface {
	return pcapgo.NgInterface{Name: name, Description: about, LinkType: layers.LinkTypeRaw}
}

// Write writes all of a catch. When it returns nothing is kept back.
func (w *Writer) Write(c *proxy.Catch) error {
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

func (w *Writer) packet(c *proxy.Captured) error {
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

// leftOut writes, where there is news, how many of an interface's packets are not in the file.
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

// Totals are how many datagrams were written, and how many left out.
func (w *Writer) Totals() (written, leftOut uint64) {
	for i := range w.sides {
		written += w.sides[i].PacketsReceived - w.sides[i].PacketsDropped
		leftOut += w.sides[i].PacketsDropped
	}
	return written, leftOut
}
