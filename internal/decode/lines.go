package decode

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of JSON Lines in bytes.
const maxLine = 1 << 20

// line is either the first line of a capture in JSON Lines, which describes the capture, or a datagram.
type line struct {
	Protocol  string `json:"protocol"`
	Transport string `json:"transport"` // "tcp": the datagrams are reads of a stream

	Millis float64 `json:"t_ms"`
	From   string  `json:"from"` // client or server
	Conn   int     `json:"conn"` // number of the client
	Hex    string  `json:"hex"`
	What   string  `json:"what"`  // the application's action, or a remark of the recorder
	Relay  string  `json:"relay"` // fate of the datagram on its way
}

// readLines reads a capture in JSON Lines: an optional line of description, and one line for each datagram.
func readLines(in io.Reader, take func(*record) error) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, maxLine)
	var about line
	number := 1
	for ; scan.Scan(); number++ {
		if len(scan.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			return fmt.Errorf("line %d: %w", number, cmp.Or(scan.Err(), err)) // damaged input has no whole line
		}
		if number == 1 && l.From == "" {
			about = l
			continue
		}
		r, err := l.record(&about)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := take(r); err != nil {
			return err
		}
	}
	switch err := scan.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: longer than %d bytes", number, maxLine)
	case err != nil:
		return fmt.Errorf("line %d: %w", number, err)
	}
	return nil
}

func (l *line) record(about *line) (*record, error) {
	data, err := hex.DecodeString(l.Hex)
	if err != nil {
		return nil, fmt.Errorf("hex: %w", err)
	}
	client := fmt.Sprintf("client %d", l.Conn)
	r := &record{millis: l.Millis, flow: client, protocol: about.Protocol, stream: about.Transport == "tcp", data: data,
		note: l.What}
	switch l.From {
	case "client":
		r.side, r.from, r.to = clientSide, client, "server"
	case "server":
		r.side, r.from, r.to = serverSide, "server", client
	default:
		return nil, fmt.Errorf("from %q: want client or server", l.From)
	}
	r.remark(l.Relay)
	return r, nil
}
