package decode

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
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
		hasDecoder := p.link.String() != layers.LinkType(math.MaxUint16).String() // the name of links without one
		if unsupported == nil && !hasDecoder {
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

func readPcapng(in *bufio.Reader, port uint16, take func(*record) error) error {
	needed := &blocks{in: in, order: binary.LittleEndian}
	reader, err := pcapgo.NewNgReader(needed, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return err
	}
	return readPackets(func() (p captured, err error) {
		var about pcapgo.NgPacketOptions
		if p.data, p.info, about, err = reader.ReadPacketDataWithOptions(); err != nil {
			return p, err
		}
		p.link = p.info.AncillaryData[0].(layers.LinkType)
		p.note = strings.Join(about.Comments, "; ")
		if strings.HasPrefix(reader.SectionInfo().Application, "tidegate ") && about.Flags != nil {
			from, err := reader.Interface(p.info.InterfaceIndex)
			if err != nil {
				return p, err
			}
			p.side = sideOf(from.Name, about.Flags.Direction)
		}
		return p, nil
	}, port, take)
}

// upstreamInterface is the name that our own captures give to the side of the servers.
const upstreamInterface = "upstream"

// sideOf returns the sender of a packet that our own command has captured. The names of its interfaces tell the sides.
func sideOf(leadsTo string, direction pcapgo.NgEpbFlag) side {
	inbound, outbound := clientSide, serverSide
	if leadsTo == upstreamInterface {
		inbound, outbound = serverSide, clientSide
	}
	switch direction {
	case pcapgo.NgEpbFlagDirectionInbound:
		return inbound
	case pcapgo.NgEpbFlagDirectionOutbound:
		return outbound
	}
	return anySide
}

// Types of pcapng's blocks that matter here, and bounds of them. The library keeps all interfaces, names and keys of a
// section, and some gzipped kilobytes can hold millions.
const (
	sectionBlock   = 0x0a0d0d0a
	interfaceBlock = 1
	oldPacketBlock = 2
	simpleBlock    = 3
	packetBlock    = 6

	maxInterfaces = 64              // of a section
	maxAbout      = 64 << 10        // bytes of a block about a section or an interface
	maxBlock      = 4 * maxPacket   // bytes of a block with a packet, with comments
	blockHeader   = 8               // bytes: type and length
	leastBlock    = blockHeader + 4 // bytes: the length stands at the end, too
)

var (
	errInterfaces = fmt.Errorf("more than %d interfaces in one capture", maxInterfaces)
	errBlock      = errors.New("block of pcapng with a wrong length")
)

// blocks reads a pcapng file without the blocks that no explanation needs.
type blocks struct {
	in         *bufio.Reader
	order      binary.ByteOrder
	head       []byte // passes before the rest of the block
	left       int    // bytes of the block that pass
	interfaces int    // of this section
}

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (n int, err error) {
	for len(b.head) == 0 && b.left == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	if len(b.head) > 0 {
		n = copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	n, err = b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// next reads the header of the next block.
func (b *blocks) next() error {
	head := make([]byte, blockHeader)
	if _, err := io.ReadFull(b.in, head); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(head) == sectionBlock {
		mark, err := b.in.Peek(4)
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		b.order, b.interfaces = binary.LittleEndian, 0
		if binary.BigEndian.Uint32(mark) == 0x1a2b3c4d {
			b.order = binary.BigEndian
		}
	}
	kind, length := b.order.Uint32(head), int64(b.order.Uint32(head[4:]))
	most := int64(maxBlock)
	switch kind {
	case interfaceBlock:
		if b.interfaces++; b.interfaces > maxInterfaces {
			return errInterfaces
		}
		most = maxAbout
	case sectionBlock:
		most = maxAbout
	case oldPacketBlock, simpleBlock, packetBlock:
	default:
		_, err := io.CopyN(io.Discard, b.in, max(length-blockHeader, 0))
		return err
	}
	if length < leastBlock || length > most {
		return errBlock
	}
	b.head, b.left = head, int(length-blockHeader)
	return nil
}
