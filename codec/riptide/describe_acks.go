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
	if isExtra || !w.wholeBytes && len(d) == 7 { // 2.1.0 to 2.1.2 always write 7 bytes
		size = 7
	}
	text := "ack of " + describeAcked(a.last, a.bits)
	if a.forSeq != a.last {
		text += fmt.Sprintf(", caused by #%d", a.forSeq)
	}
	return text, exactly(d, size)
}

// describeAcked lists the numbers that an acknowledgement covers, oldest first: last-(i+1) for each bit i, and last.
func describeAcked(last seq, bits uint16) string {
	var ranges []string
	all := uint32(bits)<<1 | 1 // bit i: last-i
	for i := 16; i >= 0; i-- {
		if all>>i&1 == 0 {
			continue
		}
		first := i
		for i > 0 && all>>(i-1)&1 != 0 {
			i--
		}
		text := fmt.Sprintf("#%d", last-seq(first))
		if i < first {
			text += fmt.Sprintf("-#%d", last-seq(i))
		}
		ranges = append(ranges, text)
	}
	return strings.Join(ranges, ", ")
}
