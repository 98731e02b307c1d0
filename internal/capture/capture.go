// Package capture writes datagrams that passed a proxy as a pcapng file, for Wireshark and for `tidegate decode`. It
// also copies such files while they grow. The package proxy decides which datagrams these are.
//
// Start with Writer, which the proxy's side uses; Copy is for the reader. The format is draft-ietf-opsawg-pcapng: a
// chain of blocks, each with its length.
package capture

import (
	"io"
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
