package riptide

import "strings"

// maxText is the size in bytes of the longest text of a goodbye: both versions write such a length, and it fits into
// every datagram beside the headers.
const maxText = 400

// AppendText appends what a game reads by GetString of the message in its Disconnected or ConnectionFailed event. What
// is too long is cut.
func (p *Protocol) AppendText(b []byte, text string) (data []byte, pad uint8) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	w := NewWriter(p.options.Version, b)
	w.String(text)
	data, pad, _ = w.Finish() // a length within maxText is no error
	return data, pad
}
