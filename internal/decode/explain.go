package decode

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/codec/nethernet"
	"tidegate/internal/each"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/words"
)

// explanation is the meaning of a record.
type explanation struct {
	text     string
	messages []string
	fault    error // the record is not, or not wholly, of the protocol
}

// openedOrClosed is the meaning of a record of a stream without bytes.
const openedOrClosed = "stream opened or closed"

// explainer explains one conversation as one protocol.
type explainer struct {
	protocol   *protocol
	describe   explain.Conversation
	fromClient framer // for streams
	fromServer framer
	described  *explain.Memory // of describe
	framed     *explain.Memory // of the framers
}

func newExplainer(p *protocol, m *explain.Memory) *explainer {
	e := &explainer{
		protocol:   p,
		fromClient: framer{prefix: p.prefix()}, fromServer: framer{prefix: p.prefix()},
		described: m.Part(), framed: m.Part(),
	}
	e.describe = p.Explain(e.described)
	return e
}

func (e *explainer) explain(fromServer bool, r *record) explanation {
	if r.stream {
		return e.explainStream(fromServer, r)
	}
	text, messages, err := e.describe(fromServer, r.data)
	return explanation{text, messages, err}
}

// explainStream explains each message that the bytes complete.
func (e *explainer) explainStream(fromServer bool, r *record) explanation {
	frames := &e.fromClient
	if fromServer {
		frames = &e.fromServer
	}
	if len(r.data) == 0 {
		*frames = framer{prefix: frames.prefix}
		return explanation{text: openedOrClosed}
	}
	if r.missing {
		frames.broken = true
	}
	frames.add(r.data)
	if !e.framed.Hold(cap(e.fromClient.rest) + cap(e.fromServer.rest)) {
		e.fromClient.rest, e.fromServer.rest = nil, nil
		e.fromClient.broken, e.fromServer.broken = true, true
	}
	var meaning explanation
	for {
		frame, ok := frames.next()
		if !ok {
			break
		}
		text, content, err := e.describe(fromServer, frame)
		if err != nil {
			meaning.fault = err
			text = err.Error()
		}
		meaning.messages = append(meaning.messages, strings.Join(append([]string{text}, content...), ": "))
	}
	meaning.text = fmt.Sprintf("part of a stream, messages completed: %d", len(meaning.messages))
	if frames.broken {
		meaning.fault = fmt.Errorf("stream without recognisable messages: %w", codec.ErrMalformed)
	}
	return meaning
}

// protocol is a protocol for explanations.
type protocol struct {
	*registry.Descriptor
	sniff func(datagram []byte) bool
}

// explained lists the protocols. The first one that fits a conversation is chosen, so protocols that are hard to
// confuse come first.
var explained = func() (all []protocol) {
	for _, d := range protocols.All {
		if d.Explain != nil {
			all = append(all, protocol{d, d.Default().Sniff})
		}
	}
	all = append(all, protocol{&registry.Descriptor{ // it has no codec
		Name: "nethernet", Evidence: registry.ByMagic,
		Explain: func(*explain.Memory) explain.Conversation { return nethernet.Describe() },
	}, nethernet.IsSTUN})
	slices.SortStableFunc(all, func(a, b protocol) int { return cmp.Compare(a.Evidence, b.Evidence) })
	return all
}()

// prefix returns the size of a message's length on a stream; 0 for a protocol without streams.
func (p *protocol) prefix() int {
	if p.Stream == nil {
		return 0
	}
	return p.Stream.Prefix
}

// Protocols returns the names of all protocols.
func Protocols() []string { return each.Of(explained, func(p protocol) string { return p.Name }) }

// named returns the protocol with a name of ours or of a capture, or nil. Riptide 2.1.0 to 2.2.1 are one protocol.
func named(name string) *protocol {
	d := protocols.Find(name)
	for i := range explained {
		if explained[i].Descriptor == d || explained[i].Name == name {
			return &explained[i]
		}
	}
	return nil
}

// printer writes explanations and counts.
type printer struct {
	out  io.Writer
	json bool

	datagrams, unknown, ignored int
	protocols                   map[string]int // datagrams
}

// printed is a datagram as JSON.
type printed struct {
	Millis   float64  `json:"t_ms"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Protocol string   `json:"protocol"`
	Bytes    int      `json:"bytes"`
	Text     string   `json:"text"`
	Messages []string `json:"messages"`
	Note     string   `json:"note,omitempty"`
	Unknown  bool     `json:"is_unknown,omitempty"`
}

// summary is the last line as JSON.
type summary struct {
	Datagrams int            `json:"datagrams"`
	Unknown   int            `json:"unknown"`
	Ignored   int            `json:"ignored"`
	Protocols map[string]int `json:"protocols"`
}

// print writes one datagram, unless it only counts.
func (p *printer) print(r *record, protocol string, meaning explanation) error {
	if r.ignored {
		p.ignored++
		return nil
	}
	p.datagrams++
	p.protocols[protocol]++
	text := meaning.text
	switch {
	case errors.Is(meaning.fault, explain.ErrUnusual):
		text += ", as no honest peer sends it"
	case meaning.fault != nil:
		p.unknown++
		text = strings.TrimPrefix(text+", unknown: ", ", ") + meaning.fault.Error()
	}
	if p.json {
		messages := append([]string{}, meaning.messages...) // an empty list, not null
		return json.NewEncoder(p.out).Encode(printed{
			r.millis, r.from, r.to, protocol, len(r.data), text, messages, r.note, meaning.fault != nil,
		})
	}
	_, err := fmt.Fprintf(p.out, "%12.3f ms  %s > %s  %s  %s  %s\n", r.millis, r.from, r.to, protocol,
		words.Count(len(r.data), "byte"), text)
	for _, message := range meaning.messages {
		fmt.Fprintf(p.out, "    %s\n", message)
	}
	if r.note != "" {
		fmt.Fprintf(p.out, "    (%s)\n", strings.Join(strings.Fields(r.note), " ")) // on one line
	}
	return err
}

// summarise writes the last line.
func (p *printer) summarise() error {
	if p.json {
		return json.NewEncoder(p.out).Encode(summary{p.datagrams, p.unknown, p.ignored, p.protocols})
	}
	var text strings.Builder
	text.WriteString(words.Count(p.datagrams, "datagram"))
	for _, name := range slices.Sorted(maps.Keys(p.protocols)) {
		fmt.Fprintf(&text, ", %d %s", p.protocols[name], name)
	}
	fmt.Fprintf(&text, "; %d not understood; %s ignored\n", p.unknown, words.Count(p.ignored, "other packet"))
	_, err := io.WriteString(p.out, text.String())
	return err
}
