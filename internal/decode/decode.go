// Package decode explains captures in plain words: datagram by datagram and message by message. It reads files, tells
// conversations and their protocols apart, and prints; what the bytes mean, each codec's Describe says.
//
// Start with File; Stream takes what cannot be read twice. A file is read twice: the first time to find out which protocol each conversation speaks (survey.go),
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

// File explains the capture in a file: JSON Lines, pcap or pcapng, each also gzipped. It ends with a summary. Of a capture
// that is damaged it explains what comes before the damage; the error names the packet or line.
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

// explainTwice surveys a capture and explains it. The survey takes a damaged capture for one that ends there, for the
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
		name, told := t.explain(r)
		return p.print(r, name, told)
	})
	if err != nil && p.datagrams+p.ignored == 0 {
		return err
	}
	if failed := p.summarise(); err == nil {
		return failed
	}
	return err
}
