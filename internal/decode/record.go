package decode

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// record is what a capture has of one moment: a datagram, or bytes of a stream.
type record struct {
	millis   float64 // since the capture began
	from, to string
	side     side   // whose it is, where the capture says so
	flow     string // the conversation it belongs to
	protocol string // as the capture says; empty if it does not
	stream   bool
	missing  bool   // of a stream: bytes before these are not in the capture
	data     []byte // lent until the next record
	note     string // what else the capture says
	ignored  bool   // no datagram and no part of a stream, but counted
}

// remark adds to what the capture says.
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

// readRecords finds out the format and reads it.
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
