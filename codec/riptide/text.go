package riptide

import "strings"

// maxText is the size in bytes of the longest text of a goodbye: both versions write such a length, and it fits into
// every datagram beside the headers.
const maxText = 400

// appendText appends what a game reads by GetString of the message in its Disconnected or ConnectionFailed event. A text
// that is too long is cut.
func appendText(v Version, b []byte, text string) (data []byte, pad uint8) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	w := NewWriter(v, b)
	w.String(text)
	data, pad, _ = w.Finish() // a length within maxText is no error
	return data, pad
}
