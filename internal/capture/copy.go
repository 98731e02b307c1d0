package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// Blocks that Copy knows, and one of their options, from draft-ietf-opsawg-pcapng, sections 4.1 to 4.3 and 4.6.
const (
	sectionBlock    = 0x0a0d0d0a
	interfaceBlock  = 1
	packetBlock     = 6
	statisticsBlock = 5
	ifdropOption    = 5
)

// maxBlock bounds a block in bytes, and the blocks before the packets: a packet has at most 64 KiB.
const maxBlock = 1 << 20

var errFormat = errors.New("not a capture, as a running proxy sends it")

// Limits end a Copy; 0 means no limit.
type Limits struct {
	Datagrams uint64
	Bytes     int64 // bytes of the file, or of all files
	Rotation  Rotation
}

// Rotation divides a Copy into files, each of which can be opened alone. Without Next there is one file.
type Rotation struct {
	Bytes int64         // bytes of a file; 0 means no limit
	Every time.Duration // time between the datagrams of a file; 0 means no limit
	// Next ends a file and begins another, with a datagram of that time.
	Next func(time.Time) (io.Writer, error)
}

// Totals count the output of Copy.
type Totals struct {
	Datagrams uint64 `json:"datagrams"`
	Bytes     int64  `json:"bytes"`
	LeftOut   uint64 `json:"left_out"` // datagrams that the proxy dropped because the reader was too slow
	Ended     bool   `json:"-"`        // the input ended before a limit
}

// Copy copies a file while it grows, up to its end or a limit. The output always consists of whole blocks, also after
// an error, so that it can be opened.
func Copy(to io.Writer, from io.Reader, limits Limits) (Totals, error) {
	c := copier{in: bufio.NewReader(from), out: bufio.NewWriter(to), limits: limits}
	err := c.run()
	if failed := c.out.Flush(); failed != nil {
		err = failed
	}
	for _, n := range c.leftOut {
		c.LeftOut += n
	}
	return c.Totals, err
}

type copier struct {
	Totals
	in      *bufio.Reader
	out     *bufio.Writer
	limits  Limits
	block   []byte
	leftOut [2]uint64 // by interface, so far
	head    []byte    // the blocks that each file begins with
	begun   time.Time // of the present file: its first datagram, or the zero time
	earlier int64     // bytes of the files before
}

func (c *copier) run() error {
	for c.limits.Datagrams == 0 || c.Datagrams < c.limits.Datagrams {
		kind, err := c.next()
		switch {
		case err == io.EOF:
			c.Ended = true
			return nil
		case err != nil:
			return err
		case !c.fits(0):
			return nil
		}
		switch err := c.rotate(kind); {
		case err == errFull:
			return nil
		case err != nil:
			return err
		}
		if _, err := c.out.Write(c.block); err != nil {
			return err
		}
		c.Bytes += int64(len(c.block))
		switch kind {
		case packetBlock:
			c.Datagrams++
		case statisticsBlock:
			c.note()
		}
		if c.in.Buffered() == 0 { // the next block may take long
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// errFull says that the next file's first blocks are beyond the limit.
var errFull = errors.New("no room for another file")

// fits reports whether the limit has room for the block and more bytes before it.
func (c *copier) fits(more int) bool {
	return c.limits.Bytes == 0 || c.Bytes+int64(more+len(c.block)) <= c.limits.Bytes
}

// rotate begins another file if the present one is full and the block is a packet.
func (c *copier) rotate(kind uint32) error {
	r, le := &c.limits.Rotation, binary.LittleEndian
	switch {
	case r.Next == nil:
		return nil
	case kind == sectionBlock || kind == interfaceBlock:
		if c.head = append(c.head, c.block...); len(c.head) > maxBlock {
			return errFormat
		}
		return nil
	case kind != packetBlock || len(c.block) < 20:
		return nil
	}
	// Writer counts nanoseconds.
	at := time.Unix(0, int64(uint64(le.Uint32(c.block[12:]))<<32|uint64(le.Uint32(c.block[16:]))))
	large := r.Bytes > 0 && c.Bytes-c.earlier+int64(len(c.block)) > r.Bytes
	switch {
	case c.begun.IsZero():
		c.begun = at
		return nil
	case !large && (r.Every == 0 || at.Sub(c.begun) < r.Every):
		return nil
	}
	if !c.fits(len(c.head)) {
		return errFull
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	next, err := r.Next(at)
	if err != nil {
		return err
	}
	c.out.Reset(next)
	c.begun, c.earlier = at, c.Bytes
	c.Bytes += int64(len(c.head))
	_, err = c.out.Write(c.head)
	return err
}

// next reads a block. It returns io.EOF at the end between two blocks.
func (c *copier) next() (kind uint32, err error) {
	le := binary.LittleEndian
	head, err := c.in.Peek(8)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	kind = le.Uint32(head)
	size := le.Uint32(head[4:])
	if size < 12 || size > maxBlock || size%4 != 0 || c.Bytes == 0 && kind != sectionBlock {
		return 0, errFormat
	}
	if uint32(cap(c.block)) < size {
		c.block = make([]byte, size)
	}
	c.block = c.block[:size]
	if _, err := io.ReadFull(c.in, c.block); err != nil {
		return 0, err
	}
	if le.Uint32(c.block[size-4:]) != size {
		return 0, errFormat
	}
	return kind, nil
}

// note reads from a statistics block how many packets of an interface were dropped so far.
func (c *copier) note() {
	const head = 20 // kind, length, interface, time
	le := binary.LittleEndian
	end := len(c.block) - 4
	if end < head || le.Uint32(c.block[8:]) >= uint32(len(c.leftOut)) {
		return
	}
	for options := c.block[head:end]; len(options) >= 4; {
		code, size := le.Uint16(options), int(le.Uint16(options[2:]))
		padded := 4 + (size+3)&^3
		if padded > len(options) {
			return
		}
		if code == ifdropOption && size == 8 {
			c.leftOut[le.Uint32(c.block[8:])] = le.Uint64(options[4:])
		}
		options = options[padded:]
	}
}
