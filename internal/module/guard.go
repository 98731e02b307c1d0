package module

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Sections of a module that guard rewrites. order has all of them in the order of a file.
const (
	typeSection     = 1
	importSection   = 2
	functionSection = 3
	tableSection    = 4
	globalSection   = 6
	codeSection     = 10
	order           = "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0c\x0a\x0b"
	headerSize      = 8
)

const (
	maxTable     = 1 << 16 // elements
	maxTables    = 16
	functionSize = 1 << 20 // of the body of a function, in bytes
	checkEvery   = 1000    // turns of loops and calls
)

var (
	errLayout = errors.New("it is not a WebAssembly module of version 1")
	errTables = fmt.Errorf("its tables have more than %d elements", maxTable)
	errImport = errors.New("it imports something else than functions")
)

// guard adds a bound on time to a module. A counter at each turn of a loop, and in each function that calls others,
// calls the function check now and then. The caller listens to check, which does nothing else, and may panic there. The
// function is the module's last one, so no other changes its number. guard also bounds tables, which wazero does not.
func guard(file []byte) (out []byte, check uint32, err error) {
	if len(file) < headerSize || string(file[:headerSize]) != "\x00asm\x01\x00\x00\x00" {
		return nil, 0, errLayout
	}
	g := guarding{out: bytes.Clone(file[:headerSize])}
	r, last := reader{rest: file[headerSize:]}, -1
	for len(r.rest) > 0 {
		kind := r.byte()
		body := reader{rest: r.bytes(r.number())}
		place := bytes.IndexByte([]byte(order), kind)
		if r.failed || kind != 0 && place <= last {
			return nil, 0, errLayout
		}
		if last = max(last, place); place > bytes.IndexByte([]byte(order), globalSection) && !g.counts {
			g.globals(reader{rest: []byte{0}})
		}
		if err := g.section(kind, body); err != nil {
			return nil, 0, err
		}
	}
	if g.functions == 0 {
		return nil, 0, errLayout
	}
	return g.out, g.imported + g.functions, nil
}

// guarding is the state of guard.
type guarding struct {
	out                                []byte
	types, imported, functions, global uint32 // numbers of them; global is that of the counter
	counts                             bool   // the counter is there
}

// section appends a section, with what it lacks.
func (g *guarding) section(kind byte, r reader) error {
	switch kind {
	case typeSection:
		g.types = r.number()
		g.list(kind, g.types+1, append(bytes.Clone(r.rest), 0x60, 0, 0)) // without parameters and results
	case importSection:
		g.imported = imports(r)
		if g.imported == noImports {
			return errImport
		}
		g.append(kind, r.rest)
	case functionSection:
		g.functions = r.number()
		g.list(kind, g.functions+1, binary.AppendUvarint(bytes.Clone(r.rest), uint64(g.types)))
	case tableSection:
		return g.tables(r)
	case globalSection:
		g.globals(r)
	case codeSection:
		return g.code(r)
	default:
		g.append(kind, r.rest)
	}
	return nil
}

func (g *guarding) append(kind byte, section []byte) {
	g.out = append(g.out, kind)
	g.out = append(binary.AppendUvarint(g.out, uint64(len(section))), section...)
}

func (g *guarding) list(kind byte, n uint32, items []byte) {
	g.append(kind, append(binary.AppendUvarint(nil, uint64(n)), items...))
}

// globals adds the counter.
func (g *guarding) globals(r reader) {
	g.global, g.counts = r.number(), true
	counter := append([]byte{0x7f, 1}, constant(checkEvery)...) // a variable of 32 bits
	g.list(globalSection, g.global+1, append(bytes.Clone(r.rest), append(counter, 0x0b)...))
}

// noImports is no number of imports.
const noImports = ^uint32(0)

// imports returns the number of imported functions, or noImports if something else is imported.
func imports(r reader) uint32 {
	n := r.number()
	for range n {
		r.bytes(r.number())
		r.bytes(r.number())
		if kind := r.byte(); kind != 0 || r.failed {
			return noImports
		}
		r.number()
	}
	return n
}

// tables gives each table a largest size.
func (g *guarding) tables(r reader) error {
	n := r.number()
	if n > maxTables {
		return errTables
	}
	var out []byte
	for range n {
		kind, flags, least, most := r.byte(), r.byte(), r.number(), uint32(maxTable)
		if flags == 1 {
			most = min(most, r.number())
		}
		switch {
		case r.failed || flags > 1:
			return errLayout
		case least > most:
			return errTables
		}
		out = append(out, kind, 1)
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(least)), uint64(most))
	}
	g.list(tableSection, n, append(out, r.rest...))
	return nil
}

// code adds the checks to functions, and the function check.
func (g *guarding) code(r reader) error {
	n := r.number()
	if n != g.functions || r.failed {
		return errLayout
	}
	var out []byte
	for range n {
		whole := r.bytes(r.number())
		body := reader{rest: whole}
		for range body.number() { // kinds of locals
			body.number()
			if body.byte(); body.failed {
				break
			}
		}
		switch {
		case r.failed || body.failed:
			return errLayout
		case len(whole) > functionSize:
			return fmt.Errorf("a function has more than %d bytes", functionSize)
		}
		locals := whole[:len(whole)-len(body.rest)]
		check := g.check()
		made, calls, err := addChecks(body, check)
		if err != nil {
			return err
		}
		if !calls {
			check = nil
		}
		out = binary.AppendUvarint(out, uint64(len(locals)+len(check)+len(made)))
		out = append(append(append(out, locals...), check...), made...)
	}
	if len(r.rest) > 0 {
		return errLayout
	}
	g.list(codeSection, n+1, append(out, 2, 0, 0x0b)) // check has no local and does nothing
	return nil
}

// check returns the code that counts, and calls check when it is time.
func (g *guarding) check() []byte {
	get, set, one := variable(0x23, g.global), variable(0x24, g.global), constant(1)
	call := variable(opCall, g.imported+g.functions)
	// counter--; if counter == 0 { check(); counter = checkEvery }
	return slices.Concat(get, one, []byte{0x6b}, set, get, []byte{0x45, 0x04, 0x40}, call, constant(checkEvery), set,
		[]byte{0x0b})
}

// variable returns the code of an operation on a global variable or a function.
func variable(op byte, n uint32) []byte { return binary.AppendUvarint([]byte{op}, uint64(n)) }

// constant returns the code of a constant, which is not negative.
func constant(n uint32) []byte {
	code := []byte{0x41}
	for ; n >= 0x40; n >>= 7 {
		code = append(code, byte(n)|0x80)
	}
	return append(code, byte(n))
}
