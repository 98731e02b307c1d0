package a2s

import "bytes"

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
