package decode

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// record is one entry of a capture: a datagram, or bytes of a stream.
type record struct {
	millis   float64 // since the start of the capture
	from, to string
	side     side   // the sender, if the capture names it
	flow     string // name of the conversation
	protocol string // as named by the capture; empty: not named
	stream   bool
	missing  bool   // for a stream: bytes before these are not in the capture
	data     []byte // lent until the next record
	note     string // other facts from the capture
	ignored  bool   // neither a datagram nor a part of a stream; only counted
}

// remark adds to the note.
func (r *record) remark(text string) {
	if r.note != "" && text != "" {
		r.note += "; "
	}
	r.note += text
}

// side is one end of a conversation.
type side uint8

const (
	anySide side = iota
	clientSide
	serverSide
)

var errFormat = errors.New("not a capture: want JSON Lines, pcap or pcapng")

// readRecords detects the format of a capture and reads it.
func readRecords(file io.Reader, port uint16, take func(*record) error) error {
	in := bufio.NewReader(file)
	if start, _ := in.Peek(2); bytes.Equal(start, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReader(unzipped)
	}
	start, err := in.Peek(4)
	switch {
	case isPcapng(start):
		return readPcapng(in, port, take)
	case isPcap(start):
		return readPcap(in, port, take)
	case len(start) > 0 && start[0] == '{':
		return readLines(in, take)
	case err != nil && err != io.EOF:
		return err
	}
	return errFormat
}
