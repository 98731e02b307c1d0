package rtype

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"tidegate/codec/codectest"
)

// exampleNames are the components of the document's example.
var exampleNames = initialisation{Names: [][]byte{[]byte("Position"), []byte("Velocity"), []byte("Health")}, Pad: 8}

func TestDocumentInitialisation(t *testing.T) {
	wire := codectest.Unhex(t, names8)
	if got := exampleNames.append(nil); !bytes.Equal(got, wire) || exampleNames.len() != len(wire) {
		t.Errorf("wrote %x of %d bytes", got, exampleNames.len())
	}
	var got initialisation
	rest, err := got.parse(append(bytes.Clone(wire), 1, 2))
	if err != nil || !got.equal(&exampleNames) || !bytes.Equal(rest, []byte{1, 2}) {
		t.Errorf("read %q, left %x, %v", got.Names, rest, err)
	}
	for i := range wire {
		if _, err := got.parse(wire[:i]); err != errNames {
			t.Errorf("%d of %d bytes: %v", i, len(wire), err)
		}
	}
}

func TestStrangeNames(t *testing.T) {
	for _, c := range []string{
		"0001 02 4100 0000", // not ended
		"0001 02 0041 ffff", // zero before a letter
		"0001 02 2041 ffff", // space
		"0001 00 ffff",      // empty name
		"0100 01" + strings.Repeat("41", maxComponents+1) + "ffff",
		"0002 02 4141 00 ffff",  // too short
		"0001 03 41 2f 41 ffff", // slash
	} {
		var n initialisation
		if _, err := n.parse(codectest.Unhex(t, c)); err != errNames {
			t.Errorf("%s: %q, %v", c, n.Names, err)
		}
	}
	var none initialisation
	if _, err := none.parse(codectest.Unhex(t, "0000 08 ffff")); err != nil || !none.known() {
		t.Errorf("no components: %v", err)
	}
}

// exampleParts are the parts as the game's servers send them. The index of early ones is one byte; late ones write two
// in their own byte order.
var exampleParts = map[Era][]string{
	Early: {"0003", "08", "00 506f736974696f6e", "01 56656c6f63697479", "02 4865616c7468"},
	Late:  {"0003", "0800", "0000 506f736974696f6e", "0100 56656c6f63697479", "0200 4865616c7468"},
}

func TestGameInitialisation(t *testing.T) {
	for _, era := range []Era{Early, Late} {
		parts := exampleParts[era]
		if exampleNames.parts(1) != len(parts) {
			t.Fatalf("%d parts, want %d", exampleNames.parts(1), len(parts))
		}
		for i, want := range parts {
			if got := exampleNames.appendPart(nil, i, era, 1); !bytes.Equal(got, codectest.Unhex(t, want)) {
				t.Errorf("era %d, part %d: wrote %x, want %s", era, i, got, want)
			}
		}
		for seed := range uint64(200) {
			gatherShuffled(t, parts, era, seed)
		}
	}
}

// gatherShuffled gathers the parts in a random order, each twice.
func gatherShuffled(t *testing.T, parts []string, era Era, seed uint64) {
	t.Helper()
	var g gather
	order := rand.New(rand.NewPCG(seed, 0)).Perm(len(parts))
	for i, part := range order {
		if g.begun() != (i > 0) {
			t.Errorf("begun is %v after %d parts", g.begun(), i)
		}
		if _, done := g.done(); done {
			t.Errorf("order %v: done after %d parts", order, i)
		}
		d := codectest.Unhex(t, parts[part])
		if !g.take(d) || g.take(d) {
			t.Errorf("order %v: part %d not taken once", order, part)
		}
	}
	n, done := g.done()
	if !done || !n.equal(&exampleNames) || g.Era != era {
		t.Errorf("order %v: %q, era %d", order, n.Names, g.Era)
	}
}

// TestGatherIsPicky: gather takes neither foreign datagrams nor superfluous parts.
func TestGatherIsPicky(t *testing.T) {
	g := gather{Counted: true, Count: 2, Pad: 8}
	for _, d := range []string{
		"", "00", "08", "0002", "0900", "02 4141", "0200 4141", "01 20", "0100", "0001 41", "00 00 00",
	} {
		if g.take(codectest.Unhex(t, d)) {
			t.Errorf("%s taken", d)
		}
	}
	if g.take(append([]byte{1}, bytes.Repeat([]byte("x"), maxName+1)...)) {
		t.Error("name beyond the bound taken")
	}
	if !g.take(append([]byte{1}, bytes.Repeat([]byte("x"), maxName)...)) || !g.take([]byte{0, 'y'}) {
		t.Error("name within the bound not taken")
	}
	if n, done := g.done(); !done || n.Pad != maxName {
		t.Errorf("length %d, want that of the longest name", n.Pad)
	}
	var overtaken gather
	if !overtaken.take([]byte{0, 0, 'x'}) || !overtaken.take([]byte{byte(nextFrame)}) || overtaken.Era != Late {
		t.Errorf("era %d of late names, which an instruction has overtaken", overtaken.Era)
	}
	var open gather
	if open.take([]byte{maxComponents, 'x'}) {
		t.Error("component beyond the bound taken")
	}
}

func FuzzInitialisation(f *testing.F) {
	f.Add(codectest.Unhex(f, names8))
	f.Add(codectest.Unhex(f, "0000 08 ffff 00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n initialisation
		rest, err := n.parse(b)
		if err != nil {
			return
		}
		if got := append(n.append(nil), rest...); !bytes.Equal(got, b) {
			t.Errorf("%x read as %q, written as %x", b, n.Names, got)
		}
	})
}
