// Package decode explains captures in plain words: datagram by datagram and message by message. It reads files, tells
// conversations and their protocols apart, and prints; what the bytes mean, each codec's Describe says.
//
// Start with File. A file is read twice: the first time to find out which protocol each conversation speaks (survey.go),
// the second time to explain it.
package decode

import (
	"fmt"
	"io"
	"os"
)

// Options say what to explain and how.
type Options struct {
	Protocol string // one of Protocols; empty: as the capture says, or as its bytes look
	Port     uint16 // only what goes to or comes from this port, which is then the server's; 0: all. Of pcap files
	JSON     bool   // one JSON object a datagram, and one that sums up
}

// File explains the capture in a file: JSON Lines, pcap or pcapng, each also gzipped. It ends with a summary.
func File(path string, out io.Writer, o Options) error {
	t := newTable(o.Protocol)
	if err := read(path, o.Port, t.survey); err != nil {
		return err
	}
	t.settle()
	p := printer{out: out, json: o.JSON, protocols: make(map[string]int)}
	err := read(path, o.Port, func(r *record) error {
		name, told := t.explain(r)
		return p.print(r, name, told)
	})
	if err != nil {
		return err
	}
	return p.summarise()
}

// read gives each record of a file, in order, to take.
func read(path string, port uint16, take func(*record) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s: want a regular file: it is read twice", path)
	}
	if err := readRecords(file, port, take); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
