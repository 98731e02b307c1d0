package decode

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// maxPacket bounds a packet of a capture in bytes, as tcpdump does.
const maxPacket = 256 << 10

// isPcap knows the four magic numbers: microseconds and nanoseconds, in either byte order.
func isPcap(start []byte) bool {
	if len(start) < 4 {
		return false
	}
	magics := []uint32{0xa1b2c3d4, 0xa1b23c4d}
	return slices.Contains(magics, binary.BigEndian.Uint32(start)) || slices.Contains(magics, binary.LittleEndian.Uint32(start))
}

func isPcapng(start []byte) bool { return string(start) == "\x0a\x0d\x0d\x0a" }

func readPcap(in *bufio.Reader, port uint16, take func(*record) error) error {
	reader, err := pcapgo.NewReader(in)
	if err != nil {
		return err
	}
	reader.SetSnaplen(maxPacket) // writers of files do not all keep to the one they state
	linkType := func(gopacket.CaptureInfo) layers.LinkType { return reader.LinkType() }
	return readPackets(reader, linkType, port, take)
}

func readPcapng(in *bufio.Reader, port uint16, take func(*record) error) error {
	reader, err := pcapgo.NewNgReader(in, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return err
	}
	linkType := func(info gopacket.CaptureInfo) layers.LinkType { return info.AncillaryData[0].(layers.LinkType) }
	return readPackets(reader, linkType, port, take)
}

// readPackets makes records of packets from links of the given types. Packets of other links are ignored, and at the end
// an error names the first.
func readPackets(
	source gopacket.PacketDataSource, linkType func(gopacket.CaptureInfo) layers.LinkType, port uint16, take func(*record) error,
) error {
	var began time.Time
	var unsupported error
	streams := make(streams)
	for number := 1; ; number++ {
		data, info, err := source.ReadPacketData()
		switch {
		case err == io.EOF && info.CaptureLength == 0:
			return unsupported
		case err == io.EOF: // between a packet's header and its bytes
			return fmt.Errorf("packet %d: %w", number, io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("packet %d: %w", number, err)
		case began.IsZero():
			began = info.Timestamp
		}
		link := linkType(info)
		if unsupported == nil && !isSupported(link) {
			unsupported = fmt.Errorf("packet %d: link type %d is not supported", number, link)
		}
		packet := gopacket.NewPacket(data, link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
		r := recordOf(packet, streams)
		if !r.ignored && !r.keep(packet, port) {
			continue
		}
		r.millis = float64(info.Timestamp.Sub(began).Microseconds()) / 1000
		if info.CaptureLength < info.Length {
			r.note = "cut short by whoever captured it"
		}
		if err := take(r); err != nil {
			return err
		}
	}
}

// isSupported reports whether there is a decoder for a link's packets.
func isSupported(link layers.LinkType) bool {
	return link.String() != layers.LinkType(math.MaxUint16).String() // the name of those without one
}
