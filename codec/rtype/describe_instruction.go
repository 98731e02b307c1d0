package rtype

import (
	"fmt"

	"tidegate/internal/words"
)

// instructions explains the changes of the world in a server's datagram, up to the first malformed one.
func (d *Describer) instructions(b []byte) (texts []string, err error) {
	f := d.format
	if f.width == 0 {
		f.width = widthOf(b)
	}
	if f.width == 0 && opcode(b[0]) == update {
		return nil, errWidth
	}
	for len(b) > 0 {
		var in instruction
		rest, err := in.parse(b, &f, d.sizes())
		if err == nil && len(rest) > 0 && !f.document {
			err = errLength
		}
		if err != nil {
			return texts, err
		}
		texts = append(texts, d.instruction(&in))
		b = rest
	}
	d.format = f
	return texts, nil
}

// sizes returns the sizes of the announced components. They are unknown: they are configured and not on the wire.
func (d *Describer) sizes() sizes {
	if !d.initial.known() {
		return nil
	}
	return sizesOf(&d.initial, nil)
}

func (d *Describer) instruction(in *instruction) string {
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

// input explains a client's input: one key, several keys in the document's dialect, or an update.
func (d *Describer) input(b []byte) (texts []string, err error) {
	if len(b) > 1 && !d.format.document {
		if opcode(b[0]) != update {
			return nil, errOpcode
		}
		return d.instructions(b)
	}
	for _, key := range b {
		if !d.format.hasKeys() || key > maxKey {
			return texts, errOpcode
		}
		texts = append(texts, describeKey(key))
	}
	return texts, nil
}

func describeKey(key byte) string {
	if key%2 == 0 {
		return "key pressed: " + keyNames[key/2]
	}
	return "key released: " + keyNames[key/2]
}
