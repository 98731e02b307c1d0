package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tidegate/codec/explain"
	"tidegate/internal/words"
)

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
