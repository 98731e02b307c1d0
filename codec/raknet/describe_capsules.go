package raknet

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"tidegate/codec/explain"
	"tidegate/internal/words"
)

// Bounds of a describer's memory of each direction.
const (
	describedSplits = 8 << 20 // bytes of incomplete split messages
	describedRecent = 1024    // reliable numbers: twice the number that a stock peer has in flight
)

// describedDirection is a describer's memory of one direction: the parts of split messages, and the newest reliable
// numbers, to recognize resends.
type describedDirection struct {
	splits *reassembly
	recent []Seq24 // the number plus 1 of the last message at index (number mod describedRecent); 0 for none
}

// capsules explains each message of a data datagram, up to the first that is malformed. Errors that wrap
// explain.ErrUnusual are of content, and end nothing.
func (w *describedDirection) capsules(body []byte) (messages []string, err error) {
	for !isPadding(body) {
		var c capsule
		rest, fault := c.parse(body)
		if fault != nil {
			return messages, fault
		}
		texts, fault := w.capsule(&c)
		messages = append(messages, texts...)
		if fault != nil && !errors.Is(fault, explain.ErrUnusual) {
			return messages, fault
		}
		err, body = cmp.Or(err, fault), rest
	}
	return messages, err
}

// capsule explains one capsule, and the message that its part completes.
func (w *describedDirection) capsule(c *capsule) ([]string, error) {
	again := c.mode.IsReliable() && w.seen(c.reliable)
	text := describeDelivery(c)
	if again {
		text += ", sent again"
	}
	if !c.split {
		content, err := describeContent(c.payload, c.pad)
		return []string{text + ": " + content}, err
	}
	part := fmt.Sprintf("%s: part %d of %d of split message %d, %s",
		text, c.splitIndex+1, c.splitCount, c.splitID, size(c.payload, c.pad))
	if again {
		return []string{part}, nil
	}
	joined, pad, err := w.join(c)
	if joined == nil {
		return []string{part}, err
	}
	content, err := describeContent(joined, pad)
	return []string{part, fmt.Sprintf("split message %d complete: %s", c.splitID, content)}, err
}

// join stores a part and returns the message if that was its last one.
func (w *describedDirection) join(c *capsule) (joined []byte, pad uint8, err error) {
	if w.splits == nil {
		w.splits = &reassembly{budget: describedSplits, partRoom: maxDescribedPart, memory: new(buffers)}
	}
	if judged, err := w.splits.judge(c); judged != fresh {
		return nil, 0, err
	}
	a := w.splits.add(0, c)
	if a == nil {
		return nil, 0, nil
	}
	defer w.splits.forget(a)
	return w.splits.join(a, false), a.pad, nil
}

// maxDescribedPart is the room reserved for a part: no path carries a larger datagram whole.
const maxDescribedPart = 1500

// held returns the size of the memory in bytes.
func (w *describedDirection) held() int {
	n := 4 * len(w.recent)
	if w.splits != nil {
		n += w.splits.held + w.splits.memory.kept + assemblyCost
	}
	return n
}

// seen records a reliable number and reports whether it was seen before.
func (w *describedDirection) seen(n Seq24) bool {
	if w.recent == nil {
		w.recent = make([]Seq24, describedRecent)
	}
	slot := &w.recent[n%describedRecent]
	was := *slot
	*slot = n + 1
	return was == n+1
}

// describeDelivery names the mode and its numbers.
func describeDelivery(c *capsule) string {
	var text strings.Builder
	text.WriteString(c.mode.String())
	if c.mode.IsReliable() {
		fmt.Fprintf(&text, " #%d", c.reliable)
	}
	if isSequenced(c.mode) {
		fmt.Fprintf(&text, " sequence %d", c.sequence)
	}
	if hasChannel(c.mode) {
		fmt.Fprintf(&text, " order %d channel %d", c.order, c.channel)
	}
	return text.String()
}

// size describes the length of a payload with pad unused bits at its end.
func size(payload []byte, pad uint8) string {
	if pad == 0 {
		return words.Count(len(payload), "byte")
	}
	return words.Count(len(payload)*8-int(pad), "bit")
}
