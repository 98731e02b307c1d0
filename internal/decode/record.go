package decode

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
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
	case string(start) == "\x0a\x0d\x0d\x0a":
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

// recordOf makes a record of a packet. It ignores fragments, and packets other than UDP and TCP with data.
func recordOf(packet gopacket.Packet, known streams) *record {
	from, to, ok := addresses(packet)
	if !ok {
		return &record{ignored: true}
	}
	switch transport := packet.TransportLayer().(type) {
	case *layers.UDP:
		r := &record{data: transport.Payload}
		r.between("udp", netip.AddrPortFrom(from, uint16(transport.SrcPort)),
			netip.AddrPortFrom(to, uint16(transport.DstPort)))
		return r
	case *layers.TCP:
		r := &record{stream: true}
		r.between("tcp", netip.AddrPortFrom(from, uint16(transport.SrcPort)),
			netip.AddrPortFrom(to, uint16(transport.DstPort)))
		known.order(r, transport)
		return r
	}
	return &record{ignored: true}
}

// addresses returns the addresses of the packet's innermost IP header.
func addresses(packet gopacket.Packet) (from, to netip.Addr, ok bool) {
	switch network := packet.NetworkLayer().(type) {
	case *layers.IPv4:
		from, _ = netip.AddrFromSlice(network.SrcIP)
		to, ok = netip.AddrFromSlice(network.DstIP)
	case *layers.IPv6:
		from, _ = netip.AddrFromSlice(network.SrcIP)
		to, ok = netip.AddrFromSlice(network.DstIP)
	}
	return from, to, ok
}

// between sets the two ends. A conversation has one name for both directions.
func (r *record) between(network string, from, to netip.AddrPort) {
	r.from, r.to = from.String(), to.String()
	if to.Compare(from) < 0 {
		from, to = to, from
	}
	r.flow = network + " " + from.String() + " " + to.String()
}

// keep reports whether the packet passes the port filter, which also tells the server's side. Port 0 passes all
// packets.
func (r *record) keep(packet gopacket.Packet, port uint16) bool {
	if port == 0 {
		return true
	}
	from, to := ports(packet)
	switch {
	case from == port && to != port:
		r.side = serverSide
	case to == port && from != port:
		r.side = clientSide
	}
	return from == port || to == port
}

func ports(packet gopacket.Packet) (from, to uint16) {
	switch transport := packet.TransportLayer().(type) {
	case *layers.UDP:
		return uint16(transport.SrcPort), uint16(transport.DstPort)
	case *layers.TCP:
		return uint16(transport.SrcPort), uint16(transport.DstPort)
	}
	return 0, 0
}
