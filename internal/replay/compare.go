package replay

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"tidegate/codec"
)

// Report says what was played, and what differed.
type Report struct {
	File          string       `json:"file"`
	To            string       `json:"to"`
	Same          bool         `json:"same"`
	Conversations []Comparison `json:"conversations"`
	Skipped       []Skipped    `json:"skipped,omitempty"`
	Unknown       int          `json:"unknown,omitempty"` // conversations of no known protocol
	Damage        string       `json:"damage,omitempty"`  // where the capture breaks off
}

// Skipped is a conversation that cannot be played.
type Skipped struct {
	Client string `json:"client"`
	Why    string `json:"why"`
}

// Comparison is the result of one conversation. Counts are of the game's messages.
type Comparison struct {
	Client   string         `json:"client"` // in the capture
	Session  string         `json:"session,omitempty"`
	Protocol string         `json:"protocol"`
	Same     bool           `json:"same"`
	Sent     int            `json:"sent"`             // of the client's messages
	Unsent   map[string]int `json:"unsent,omitempty"` // by the reason
	Captured int            `json:"captured"`         // of the server's messages
	Answered int            `json:"answered"`         // now
	IDs      []IDCount      `json:"ids,omitempty"`    // with another count now
	Missing  []Content      `json:"missing,omitempty"`
	New      []Content      `json:"new,omitempty"`
	// Order is the place, from 1, of the first message of the server that has another one's content. It is only set if
	// the contents are the same.
	Order int    `json:"order,omitempty"`
	Ended Ended  `json:"ended"`
	Note  string `json:"note,omitempty"`
}

// IDCount is the number of the server's messages with one ID.
type IDCount struct {
	ID       string `json:"id"`
	Captured int    `json:"captured"`
	Now      int    `json:"now"`
}

// Content is a message of the server that the capture and the present do not share.
type Content struct {
	ID    string `json:"id"`
	Mode  string `json:"mode"`
	Bytes int    `json:"bytes"`
	Hash  string `json:"hash"` // of its payload
	Count int    `json:"count"`
}

// Ended is how the conversation ended.
type Ended struct {
	Captured string `json:"captured"`
	Now      string `json:"now"`
}

// maxContents bounds the listed messages of each kind.
const maxContents = 20

// content identifies a message's content.
type content struct {
	id    string
	mode  codec.Mode
	bytes int
	hash  uint64
}

func contentOf(m *codec.Message) content {
	return content{idOf(m), m.Mode, len(m.Payload), xxh3.HashSeed(m.Payload, uint64(m.Pad))}
}

// contentsOf returns the contents of messages. Where several messages may arrive as one, only all of them together can
// be compared.
func (p *player) contentsOf(all []codec.Message) (contents []content) {
	if p.joins && len(all) > 0 {
		whole := codec.Message{Mode: all[0].Mode}
		for i := range all {
			whole.Payload = append(whole.Payload, all[i].Payload...)
		}
		c := contentOf(&whole)
		c.id = "all"
		return []content{c}
	}
	for i := range all {
		contents = append(contents, contentOf(&all[i]))
	}
	return contents
}

// idOf names a message's kind: its ID, or else its first byte.
func idOf(m *codec.Message) string {
	switch {
	case m.HasID:
		return strconv.Itoa(int(m.ID))
	case len(m.Payload) > 0:
		return fmt.Sprintf("0x%02x", m.Payload[0])
	}
	return "empty"
}

// compare compares a player's answers with its script.
func compare(p *player) Comparison {
	c := Comparison{
		Client: p.of.Client, Session: p.of.Session, Protocol: p.protocol.Name, Sent: p.sent, Unsent: p.unsent,
		Captured: len(p.heard), Answered: len(p.answers), Note: p.note(),
		Ended: Ended{string(p.end), string(p.ended)},
	}
	var captured []codec.Message
	for i := range p.heard {
		captured = append(captured, p.heard[i].Message)
	}
	before, now := p.contentsOf(captured), p.contentsOf(p.answers)
	c.IDs = countIDs(before, now)
	c.Missing, c.New = difference(before, now), difference(now, before)
	if len(c.Missing)+len(c.New) == 0 {
		c.Order = firstDifference(before, now)
	}
	c.Same = len(c.Missing)+len(c.New)+c.Order+len(c.Unsent) == 0 && p.endedAlike()
	return c
}

// endedAlike reports whether the server ended the conversation in both cases or in none.
func (p *player) endedAlike() bool {
	plays := p.ended == open || p.ended == byClient
	if p.end == open || p.end == byClient {
		return plays
	}
	return p.ended == p.end
}

// note says what the result depends on.
func (p *player) note() string {
	switch {
	case p.connected.IsZero():
		return "the server did not let the client in"
	case p.protocol.Name == "bedrock" && p.over && p.ended != byClient:
		return "Bedrock's messages are played as they were; a server that encrypts has other keys now, and ends the session"
	case p.joins:
		return "the wire joins messages: all answers are compared as one"
	case !p.begins:
		return "the capture begins in the middle of the conversation"
	case p.faults > 0:
		return fmt.Sprintf("%d datagrams of the capture are not of the protocol", p.faults)
	}
	return ""
}

// countIDs returns the IDs whose counts differ, in the order of IDs.
func countIDs(before, now []content) (all []IDCount) {
	counts := make(map[string]*IDCount)
	of := func(id string) *IDCount {
		if counts[id] == nil {
			counts[id] = &IDCount{ID: id}
		}
		return counts[id]
	}
	for i := range before {
		of(before[i].id).Captured++
	}
	for i := range now {
		of(now[i].id).Now++
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[id]; n.Captured != n.Now {
			all = append(all, *n)
		}
	}
	return all
}

// difference returns the contents that are more often in a than in b, at most maxContents of them.
func difference(a, b []content) (all []Content) {
	left := make(map[content]int)
	for _, c := range b {
		left[c]++
	}
	index := make(map[content]int)
	for _, c := range a {
		if left[c]--; left[c] >= 0 {
			continue
		}
		at, known := index[c]
		switch {
		case known:
			all[at].Count++
		case len(all) < maxContents:
			index[c] = len(all)
			var hash [8]byte
			binary.BigEndian.PutUint64(hash[:], c.hash)
			all = append(all, Content{c.id, c.mode.String(), c.bytes, fmt.Sprintf("%x", hash), 1})
		}
	}
	return all
}

// firstDifference returns the place of the first content that differs, from 1. Only messages in an ordered mode have an
// order.
func firstDifference(before, now []content) int {
	ordered := func(all []content) []content {
		return slices.DeleteFunc(slices.Clone(all), func(c content) bool {
			return c.mode != codec.ReliableOrdered && c.mode != codec.UnreliableSequenced && c.mode != codec.Notify
		})
	}
	before, now = ordered(before), ordered(now)
	for i := range min(len(before), len(now)) {
		if before[i] != now[i] {
			return i + 1
		}
	}
	return 0
}

// add adds a conversation.
func (r *Report) add(c Comparison) {
	r.Conversations = append(r.Conversations, c)
	r.Same = r.Same && c.Same
	slices.SortStableFunc(r.Conversations, func(a, b Comparison) int { return cmp.Compare(sameRank(a), sameRank(b)) })
}

// sameRank puts conversations that differ first.
func sameRank(c Comparison) int {
	if c.Same {
		return 1
	}
	return 0
}
