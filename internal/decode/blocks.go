package decode

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

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
