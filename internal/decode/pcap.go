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

// isPcap recognizes the four magic numbers: microseconds and nanoseconds, in both byte orders.
func isPcap(start []byte) bool {
	if len(start) < 4 {
		return false
	}
	magics := []uint32{0xa1b2c3d4, 0xa1b23c4d}
	return slices.Contains(magics, binary.BigEndian.Uint32(start)) ||
		slices.Contains(magics, binary.LittleEndian.Uint32(start))
}

// captured is a packet of a file, with the file's facts about it.
type captured struct {
	data []byte
	info gopacket.CaptureInfo
	link layers.LinkType
	side side
	note string
}

func readPcap(in *bufio.Reader, port uint16, take func(*record) error) error {
	reader, err := pcapgo.NewReader(in)
	if err != nil {
		return err
	}
	reader.SetSnaplen(maxPacket) // some writers exceed the length that they state
	return readPackets(func() (p captured, err error) {
		p.link = reader.LinkType()
		p.data, p.info, err = reader.ReadPacketData()
		return p, err
	}, port, take)
}

// readPackets makes records of packets from links of the given types. It ignores packets of other links; at the end an
// error names the first such link.
func readPackets(next func() (captured, error), port uint16, take func(*record) error) error {
	var began time.Time
	var unsupported error
	streams := make(streams)
	for number := 1; ; number++ {
		p, err := next()
		switch {
		case err == io.EOF && p.info.CaptureLength == 0:
			return unsupported
		case err == io.EOF: // the file ends between a packet's header and its bytes
			return fmt.Errorf("packet %d: %w", number, io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("packet %d: %w", number, err)
		case began.IsZero():
			began = p.info.Timestamp
		}
		if unsupported == nil && !isSupported(p.link) {
			unsupported = fmt.Errorf("packet %d: link type %d is not supported", number, p.link)
		}
		packet := gopacket.NewPacket(p.data, p.link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
		r := recordOf(packet, streams)
		r.side = p.side
		if !r.ignored && !r.keep(packet, port) {
			continue
		}
		r.millis = float64(p.info.Timestamp.Sub(began).Microseconds()) / 1000
		r.remark(p.note)
		if p.info.CaptureLength < p.info.Length {
			r.remark("truncated in the capture")
		}
		if err := take(r); err != nil {
			return err
		}
	}
}

// isSupported reports whether there is a decoder for a link's packets.
func isSupported(link layers.LinkType) bool {
	return link.String() != layers.LinkType(math.MaxUint16).String() // the name of links without a decoder
}
