package decode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"tidegate/internal/registry"
)

// Conversation has the datagrams between one client and its server.
type Conversation struct {
	Client   string // its address
	Server   string
	Session  string // the ID of Tidegate's session, if the capture names one
	Upstream bool   // Tidegate is the client: the capture is Tidegate's own, of the side of its servers
	Stream   bool   // over TCP: the datagrams are frames
	Protocol *registry.Descriptor
	// Datagrams are in the capture's order.
	Datagrams []Datagram
}

// Datagram is a datagram of a Conversation.
type Datagram struct {
	At         time.Duration // since the start of the capture
	FromServer bool
	Bytes      []byte
}

// maxConversations bounds the memory for datagrams, in bytes.
const maxConversations = 1 << 30

var errLarge = fmt.Errorf("more than %d bytes of datagrams: choose a part with --port, or capture one client",
	maxConversations)

// Conversations reads the conversations of a capture whose protocols are known, in the order of their beginnings.
// It also returns the number of the other conversations.
func Conversations(path string, o Options) (all []*Conversation, unknown int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: want a regular file: it is read twice", path)
	}
	t := newTable(o.Protocol)
	err = readRecords(file, o.Port, t.survey)
	if err != nil && len(t.flows) == 0 {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	t.settle()
	if _, err := file.Seek(0, 0); err != nil {
		return nil, 0, err
	}
	g := gatherer{table: t, byFlow: make(map[string]*Conversation)}
	if err := readRecords(file, o.Port, g.gather); errors.Is(err, errLarge) {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	for _, f := range t.flows {
		if f.chosen == nil {
			unknown++
		}
	}
	return g.all, unknown, err
}

// gatherer collects the datagrams of conversations.
type gatherer struct {
	*table
	byFlow map[string]*Conversation
	all    []*Conversation
	size   int
}

func (g *gatherer) gather(r *record) error {
	f := g.flows[r.flow]
	if r.ignored || f == nil || f.chosen == nil {
		return nil
	}
	fromServer := f.fromServer(r, f.swapped)
	c := g.byFlow[r.flow]
	if c == nil {
		c = &Conversation{
			Client: r.from, Server: r.to, Upstream: r.upstream, Stream: r.stream, Protocol: f.chosen.protocol.Descriptor,
		}
		if fromServer {
			c.Client, c.Server = r.to, r.from
		}
		g.byFlow[r.flow], g.all = c, append(g.all, c)
	}
	if _, id, ok := strings.Cut(r.note, "session "); ok && c.Session == "" {
		c.Session, _, _ = strings.Cut(id, ";")
	}
	at := time.Duration(r.millis * float64(time.Millisecond))
	add := func(b []byte) error {
		if g.size += len(b); g.size > maxConversations {
			return errLarge
		}
		c.Datagrams = append(c.Datagrams, Datagram{at, fromServer, bytes.Clone(b)})
		return nil
	}
	if !r.stream {
		return add(r.data)
	}
	frames := &f.chosen.fromClient
	if fromServer {
		frames = &f.chosen.fromServer
	}
	frames.add(r.data)
	for frame, ok := frames.next(); ok; frame, ok = frames.next() {
		if err := add(frame); err != nil {
			return err
		}
	}
	return nil
}
