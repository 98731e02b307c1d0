package oddplayer

import (
	"encoding/binary"
	"math/rand/v2"
	"net"

	"tidegate/codec"
)

// stream is a TCP connection of frames, each with its length before it. Its frames come joined and in pieces. Read and
// Write take whole frames, as a UDP socket takes datagrams.
type stream struct {
	net.Conn
	prefix int // bytes of a length
	rng    *rand.Rand
	in     []byte // without whole frames
	out    []byte // waits for the next frame or Read
	buffer [codec.MaxDatagram]byte
}

const wrongLength = 512 // one of so many frames has a length that no frame can have, which ends the connection

func (s *stream) Read(b []byte) (int, error) {
	if err := s.flush(); err != nil {
		return 0, err
	}
	for {
		if n, ok := s.length(); ok {
			copied := copy(b, s.in[s.prefix:][:n])
			s.in = s.in[s.prefix+n:]
			return copied, nil
		}
		n, err := s.Conn.Read(s.buffer[:])
		if err != nil {
			return 0, err
		}
		s.in = append(s.in, s.buffer[:n]...)
	}
}

// length returns the length of the first frame, if it is whole.
func (s *stream) length() (n int, ok bool) {
	var head [4]byte
	if len(s.in) < s.prefix {
		return 0, false
	}
	copy(head[:], s.in[:s.prefix])
	n = int(binary.LittleEndian.Uint32(head[:]))
	return n, len(s.in) >= s.prefix+n
}

func (s *stream) Write(b []byte) (int, error) {
	n := uint32(len(b))
	if s.rng.IntN(wrongLength) == 0 {
		n = []uint32{0, 1 << 31, 1<<32 - 1, 0x7fff_ffff, 4000}[s.rng.IntN(5)]
	}
	s.out = append(binary.LittleEndian.AppendUint32(s.out, n)[:len(s.out)+s.prefix], b...)
	switch s.rng.IntN(4) {
	case 0: // joins the next one
		return len(b), nil
	case 1: // cut anywhere
		sent, err := s.Conn.Write(s.out[:1+s.rng.IntN(len(s.out))])
		s.out = s.out[sent:]
		return len(b), err
	}
	return len(b), s.flush()
}

func (s *stream) flush() error {
	n, err := s.Conn.Write(s.out)
	s.out = s.out[n:]
	return err
}
