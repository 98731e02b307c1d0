// Package decode explains captures in plain words, datagram by datagram and message by message. It reads files,
// separates conversations, finds their protocols, and prints. The meaning of the bytes comes from each codec's
// Describe.
//
// Start with File; Stream takes input that can be read only once. File reads a capture twice: first to find the
// protocol of each conversation (survey.go), then to explain it.
package decode

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/gopacket/gopacket/layers"
	"tidegate/codec"
)

// Options configure an explanation.
type Options struct {
	Protocol string // one of Protocols; empty: as the capture says, or as the bytes look
	Port     uint16 // only datagrams to or from this port, which is the server's; 0: all. For pcap files
	JSON     bool   // one JSON object for each datagram, and one summary
}

// File explains the capture in a file: JSON Lines, pcap or pcapng, each also gzipped. It ends with a summary. If a
// capture is damaged, File explains the part before the damage, and the error names the packet or line.
func File(path string, out io.Writer, o Options) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s: want a regular file: it is read twice", path)
	}
	if err := explainTwice(file, out, o); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// explainTwice surveys a capture and explains it. The survey treats damage as the end of the capture, because the
// second reading meets the same damage and reports it.
func explainTwice(capture io.ReadSeeker, out io.Writer, o Options) error {
	t := newTable(o.Protocol)
	_ = readRecords(capture, o.Port, t.survey)
	t.settle()
	if _, err := capture.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p := printer{out: out, json: o.JSON, protocols: make(map[string]int)}
	err := readRecords(capture, o.Port, func(r *record) error {
		name, meaning := t.explain(r)
		return p.print(r, name, meaning)
	})
	if err != nil && p.datagrams+p.ignored == 0 {
		return err
	}
	if failed := p.summarise(); err == nil {
		return failed
	}
	return err
}

// maxStream bounds the temporary file of Stream, in bytes.
const maxStream = 1 << 30

// Stream explains a capture that can be read only once, with a temporary file of at most 1 GiB.
func Stream(in io.Reader, out io.Writer, o Options) error {
	return spool(in, maxStream, func(capture io.ReadSeeker) error { return explainTwice(capture, out, o) })
}

// spool gives use a temporary copy of in. It fails if in has more than limit bytes.
func spool(in io.Reader, limit int64, use func(io.ReadSeeker) error) error {
	file, err := os.CreateTemp("", "tidegate-decode-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	size, err := io.Copy(file, io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return err
	case size > limit:
		return fmt.Errorf("longer than %d bytes", limit)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return use(file)
}

// framer cuts one direction of a stream into messages. Before each message comes its length, a little-endian number of
// prefix bytes. An impossible length ends the recognition of messages. A protocol without streams has the prefix 0,
// and no messages are recognized.
type framer struct {
	prefix int
	rest   []byte // incomplete message
	broken bool
}

// add takes the next bytes. The caller calls next until there is no message before it adds more, so that little is
// kept.
func (f *framer) add(b []byte) {
	if f.broken || f.prefix == 0 {
		f.rest, f.broken = nil, true
		return
	}
	f.rest = append(f.rest, b...)
}

// next returns the next complete message.
func (f *framer) next() (message []byte, ok bool) {
	if f.broken || len(f.rest) < f.prefix {
		return nil, false
	}
	length := int(binary.LittleEndian.Uint16(f.rest))
	if f.prefix == 4 {
		length = int(int32(binary.LittleEndian.Uint32(f.rest)))
	}
	if length < 1 || length > codec.MaxDatagram {
		f.rest, f.broken = nil, true
		return nil, false
	}
	if len(f.rest) < f.prefix+length {
		return nil, false
	}
	message = f.rest[f.prefix : f.prefix+length]
	f.rest = f.rest[f.prefix+length:]
	return message, true
}

// tcpSeq is the number of a byte in one direction of a TCP connection. It wraps; compare only with minus.
type tcpSeq uint32

// minus returns how far s is ahead of t; negative if it is behind.
func (s tcpSeq) minus(t tcpSeq) int { return int(int32(s - t)) }

// streams has the number of the next byte for each direction of at most 2*maxFlows TCP connections.
type streams map[string]tcpSeq

// order gives r the new bytes of a segment. It does not reorder: a capture made at one of the ends has the segments in
// order. Missing bytes stay missing.
func (k streams) order(r *record, segment *layers.TCP) {
	way := r.from + " " + r.to
	at := tcpSeq(segment.Seq)
	next, known := k[way]
	if segment.SYN || !known {
		next = at
		if segment.SYN {
			at++
			next++
		}
	}
	data := segment.Payload
	switch ahead := at.minus(next); {
	case ahead > 0:
		r.missing = true
	case -ahead >= len(data):
		data = nil
	default:
		data = data[-ahead:]
	}
	r.data = data
	switch {
	case segment.SYN:
		r.note = "opened"
	case segment.RST:
		r.note = "reset"
	case segment.FIN:
		r.note = "closed"
	case len(data) == 0:
		r.ignored = true
	}
	if known || len(k) < 2*maxFlows {
		k[way] = next + tcpSeq(max(0, at.minus(next)+len(segment.Payload)))
	}
}
