package netio

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"net"
	"net/netip"
	"runtime"
)

// controls describes the control messages in which a system tells, and takes, the local address of a datagram.
type controls struct {
	word         int // size of a message's first field, its length. Messages begin at multiples of it
	ask4, ask6   int // options that ask for them
	kind4, kind6 int32
	size4        int // of IPv4's data
	spec4, to4   int // in IPv4's data: where the address to answer from begins, and the destination
}

const (
	wordSize  = bits.UintSize / 8
	levelIPv4 = 0
	levelIPv6 = 41
	size6     = 20 // of IPv6's data: the address, and the interface
	localRoom = 80 // for the longest message of each family
)

// allControls has each system's numbers. macOS aligns to 4 bytes in 64-bit programs, too.
var allControls = map[string]controls{
	"linux":   {word: wordSize, ask4: 8, ask6: 49, kind4: 8, kind6: 50, size4: 12, spec4: 4, to4: 8},
	"darwin":  {word: 4, ask4: 26, ask6: 61, kind4: 26, kind6: 46, size4: 12, spec4: 4, to4: 8},
	"windows": {word: wordSize, ask4: 19, ask6: 19, kind4: 19, kind6: 19, size4: 8},
}

var system = allControls[runtime.GOOS]

// askLocal asks the system for the destination address of each datagram. An IPv6 socket may get IPv4 ones, too.
func askLocal(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil || system.word == 0 {
		return errors.Join(err, errors.ErrUnsupported)
	}
	var four, six error
	err = raw.Control(func(fd uintptr) {
		four = setNumber(fd, levelIPv4, system.ask4, 1)
		six = setNumber(fd, levelIPv6, system.ask6, 1)
	})
	if err != nil || four == nil || six == nil {
		return err
	}
	return errors.Join(four, six)
}

// local returns the destination address of a datagram by its control messages.
func (c *controls) local(messages []byte) (at netip.Addr) {
	begin := c.header()
	for len(messages) >= begin {
		length := uint64(binary.NativeEndian.Uint32(messages))
		if c.word == 8 {
			length = binary.NativeEndian.Uint64(messages)
		}
		if length < uint64(begin) || length > uint64(len(messages)) {
			break
		}
		level := binary.NativeEndian.Uint32(messages[c.word:])
		kind := int32(binary.NativeEndian.Uint32(messages[c.word+4:]))
		data := messages[begin:length]
		switch {
		case level == levelIPv4 && kind == c.kind4 && len(data) >= c.size4:
			// The first address is the one to answer a broadcast from. Not every system tells it.
			if at = netip.AddrFrom4([4]byte(data[c.spec4:])); at.IsUnspecified() {
				at = netip.AddrFrom4([4]byte(data[c.to4:]))
			}
		case level == levelIPv6 && kind == c.kind6 && len(data) >= 16 && !at.IsValid():
			at = netip.AddrFrom16([16]byte(data)).Unmap()
		}
		messages = messages[min(c.space(len(data)), len(messages)):]
	}
	if at.IsMulticast() || at.IsUnspecified() {
		return netip.Addr{}
	}
	return at
}

// header is the size of a message's length, level and kind.
func (c *controls) header() int { return c.word + 8 }

// space is the room of a message with n bytes of data.
func (c *controls) space(n int) int { return (c.header() + n + c.word - 1) / c.word * c.word }

// append appends a control message.
func (c *controls) append(b []byte, level uint32, kind int32, data []byte) []byte {
	b = append(b, make([]byte, c.space(len(data)))...)
	m := b[len(b)-c.space(len(data)):]
	length := c.header() + len(data)
	if c.word == 8 {
		binary.NativeEndian.PutUint64(m, uint64(length))
	} else {
		binary.NativeEndian.PutUint32(m, uint32(length))
	}
	binary.NativeEndian.PutUint32(m[c.word:], level)
	binary.NativeEndian.PutUint32(m[c.word+4:], uint32(kind))
	copy(m[c.header():], data)
	return b
}

// appendSource appends the control message that sets the source address of a datagram.
func (c *controls) appendSource(b []byte, from netip.Addr) []byte {
	var info [size6]byte
	if from.Is4() {
		ip := from.As4()
		copy(info[c.spec4:], ip[:])
		return c.append(b, levelIPv4, c.kind4, info[:c.size4])
	}
	ip := from.As16()
	copy(info[:], ip[:])
	return c.append(b, levelIPv6, c.kind6, info[:])
}
