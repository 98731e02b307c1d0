package riptide

import (
	"fmt"
	"strings"
)

func (w *dialect) describeAck(d []byte) (string, error) {
	var a ack
	if err := a.parse(w, d); err != nil {
		return "", err
	}
	size := 5
	isExtra := w.wholeBytes && d[0] == typeAckExtra
	if isExtra || !w.wholeBytes && len(d) == 7 { // 2.1.0 to 2.1.2 make all of them 7 bytes long
		size = 7
	}
	text := "ack of " + describeAcked(a.last, a.bits)
	if a.forSeq != a.last {
		text += fmt.Sprintf(", caused by #%d", a.forSeq)
	}
	return text, exactly(d, size)
}

// describeAcked lists the numbers that an acknowledgement tells of, newest first: last, and last-(i+1) for each bit i.
func describeAcked(last seq, bits uint16) string {
	var text strings.Builder
	all := uint32(bits)<<1 | 1 // bit i: last-i
	for i := seq(0); all>>i != 0; i++ {
		if all>>i&1 == 0 {
			continue
		}
		if i > 0 {
			text.WriteString(", ")
		}
		first := i
		for all>>(i+1)&1 != 0 {
			i++
		}
		fmt.Fprintf(&text, "#%d", last-first)
		if i > first {
			fmt.Fprintf(&text, "-#%d", last-i)
		}
	}
	return text.String()
}
