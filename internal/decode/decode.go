// Package decode explains captures in plain words, datagram by datagram and message by message. It reads files,
// separates conversations, finds their protocols, and prints. The meaning of the bytes comes from each codec's
// Describe.
//
// Start with File; Stream takes input that can be read only once. File reads a capture twice: first to find the
// protocol of each conversation (survey.go), then to explain it.
package decode

import (
	"fmt"
	"io"
	"os"
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
