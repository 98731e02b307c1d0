package rtype

import (
	"cmp"
	"fmt"

	"tidegate/codec/explain"
	"tidegate/internal/words"
)

// errUnusualComponent reports a component that the server, as far as the describer has heard, has not announced. The
// server itself may have announced it to a peer that was heard differently.
var errUnusualComponent = fmt.Errorf("%w: %w", explain.ErrUnusual, errComponent)

// instructions explains the changes of the world in a datagram, up to the first malformed one.
func (d *describer) instructions(b []byte) (texts []string, err error) {
	f := d.format
	if f.width == 0 {
		f.width = widthOf(b)
	}
	if f.width == 0 && opcode(b[0]) == update {
		return nil, errWidth
	}
	for len(b) > 0 {
		var in instruction
		rest, fault := in.parse(b, &f, nil) // the sizes are configured and not on the wire
		if fault == nil && len(rest) > 0 && !f.document {
			fault = errLength
		}
		if fault != nil {
			return texts, fault
		}
		if in.op >= attach && in.op <= detach && d.initial.known() && int(in.component) >= len(d.initial.Names) {
			err = errUnusualComponent
		}
		texts = append(texts, d.instruction(&in))
		b = rest
	}
	d.format = f
	return texts, err
}

func (d *describer) instruction(in *instruction) string {
	switch in.op {
	case create:
		return fmt.Sprintf("create entity %d", in.entity)
	case remove:
		return fmt.Sprintf("delete entity %d", in.entity)
	case attach:
		return fmt.Sprintf("attach component %s to entity %d", d.component(in.component), in.entity)
	case update:
		return fmt.Sprintf("update component %s of entity %d, %s: %.16x",
			d.component(in.component), in.entity, words.Count(len(in.data), "byte"), in.data)
	case detach:
		return fmt.Sprintf("detach component %s from entity %d", d.component(in.component), in.entity)
	}
	return "next frame"
}

var keyNames = [maxKey/2 + 1]string{"right", "up", "left", "down", "left click", "right click"}

// errUnusualKeys reports keys where clients send none, or only one in a datagram, as far as the describer has heard.
var errUnusualKeys = fmt.Errorf("%w: %w", explain.ErrUnusual, errOpcode)

// input explains a client's input: one key, several keys in the document's dialect, or an update. The dialect of an
// automatic server may be known only to the server, so keys are explained in every dialect.
func (d *describer) input(b []byte) (texts []string, err error) {
	f := d.format
	if len(b) > 1 && opcode(b[0]) == update && !f.document {
		if texts, err = d.instructions(b); len(texts) > 0 {
			return texts, err
		}
	}
	keys, rest := describeKeys(b)
	switch {
	case len(rest) > 0 && !f.document:
		return texts, cmp.Or(err, errOpcode)
	case len(rest) > 0:
		return keys, errOpcode
	case !f.hasKeys() || len(b) > 1 && !f.document && f != format{}:
		return keys, errUnusualKeys
	}
	return keys, nil
}

// describeKeys explains the keys at the start of b, and returns what follows them.
func describeKeys(b []byte) (texts []string, rest []byte) {
	for len(b) > 0 && b[0] <= maxKey {
		texts = append(texts, describeKey(b[0]))
		b = b[1:]
	}
	return texts, b
}

func describeKey(key byte) string {
	if key%2 == 0 {
		return "key pressed: " + keyNames[key/2]
	}
	return "key released: " + keyNames[key/2]
}
