// Package a2s reads and writes the queries that server browsers send to Source's games and many others (A2S), and those
// to games like Quake 3 and FiveM (getinfo and getstatus).
package a2s

import (
	"bytes"
	"encoding/binary"
)

// Kind is what a query asks for.
type Kind uint8

// Kinds of queries.
const (
	Info Kind = iota
	Players
	Rules
	GetInfo
	GetStatus
	Kinds // their number
)

// Family is a language of queries: the kinds from First to Last.
type Family struct{ First, Last Kind }

// The families.
var (
	Source = Family{Info, Rules}
	Quake  = Family{GetInfo, GetStatus}
)

// None stands for no challenge: the server gives one.
const None uint32 = 0xffffffff

const (
	lone       = "\xff\xff\xff\xff" // begins a datagram that is whole
	part       = "\xfe\xff\xff\xff"
	partHeader = len(part) + 6 // an ID, the number of parts, and the part's own
	challenge  = lone + "A"
)

var (
	questions = [Kinds][]byte{[]byte(lone + "TSource Engine Query\x00"), []byte(lone + "U"), []byte(lone + "V"),
		[]byte(lone + "getinfo"), []byte(lone + "getstatus")}
	answers = [Kinds][]byte{[]byte(lone + "I"), []byte(lone + "D"), []byte(lone + "E"),
		[]byte(lone + "infoResponse\n"), []byte(lone + "statusResponse\n")}
)

// ParseQuery reads a query of Source's, and the challenge that its client repeats. It reports false for any other
// datagram.
func ParseQuery(datagram []byte) (k Kind, given uint32, ok bool) {
	for k, question := range questions[:Source.Last+1] {
		rest, found := bytes.CutPrefix(datagram, question)
		switch {
		case !found:
		case len(rest) == 4:
			return Kind(k), binary.LittleEndian.Uint32(rest), true
		case len(rest) == 0 && Kind(k) == Info:
			return Info, None, true
		}
	}
	return 0, 0, false
}

// AppendQuery appends a query.
func AppendQuery(b []byte, k Kind, given uint32) []byte {
	b = append(b, questions[k]...)
	switch {
	case k >= Quake.First:
		return append(b, " xxx"...)
	case k == Info && given == None:
		return b
	}
	return binary.LittleEndian.AppendUint32(b, given)
}

// ParseChallenge reads a server's demand that a client repeats its query with a challenge.
func ParseChallenge(datagram []byte) (given uint32, ok bool) {
	if len(datagram) != len(challenge)+4 || string(datagram[:len(challenge)]) != challenge {
		return 0, false
	}
	return binary.LittleEndian.Uint32(datagram[len(challenge):]), true
}

// AppendChallenge appends such a demand. It is never longer than a query.
func AppendChallenge(b []byte, given uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, challenge...), given)
}

// IsAnswer reports whether a datagram is a whole answer to a query.
func IsAnswer(datagram []byte, k Kind) bool { return bytes.HasPrefix(datagram, answers[k]) }

// ParsePart reads the header of a part of a long answer. Numbers count from 0.
func ParsePart(datagram []byte) (id uint32, number, total int, ok bool) {
	if len(datagram) <= partHeader || string(datagram[:len(part)]) != part {
		return 0, 0, 0, false
	}
	rest := datagram[len(part):]
	id, total, number = binary.LittleEndian.Uint32(rest), int(rest[4]), int(rest[5])
	return id, number, total, number < total
}

// mostChallenge bounds the challenge of a query of Quake's, which the answer repeats.
const mostChallenge = 64

// ParseWord reads a query of Quake's, and its challenge: a word that the client chooses. It reports false for any other
// datagram.
func ParseWord(datagram []byte) (k Kind, word []byte, ok bool) {
	for k = Quake.First; k <= Quake.Last; k++ {
		rest, found := bytes.CutPrefix(datagram, questions[k])
		if !found {
			continue
		}
		word = bytes.Trim(rest, " \n\x00")
		isApart := len(rest) == 0 || bytes.IndexByte([]byte(" \n\x00"), rest[0]) >= 0
		return k, word, isApart && len(word) <= mostChallenge && !bytes.ContainsFunc(word, isStrange)
	}
	return 0, nil, false
}

// isStrange reports whether a character can end a value of an answer, or its line.
func isStrange(c rune) bool {
	return c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == ';' || c == '%'
}

// AppendAnswer appends an answer with another challenge, if it has one. Its second line is a list: \key\value\key and
// so on.
func AppendAnswer(b, answer, word []byte) []byte {
	head, rest, _ := bytes.Cut(answer, []byte("\n"))
	list, _, _ := bytes.Cut(rest, []byte("\n"))
	key := []byte(`\challenge\`)
	at := bytes.Index(list, key)
	if at < 0 {
		return append(b, answer...)
	}
	at += len(key)
	end := len(list)
	if n := bytes.IndexByte(list[at:], '\\'); n >= 0 {
		end = at + n
	}
	begin := len(head) + 1
	b = append(append(b, answer[:begin+at]...), word...)
	return append(b, answer[begin+end:]...)
}
