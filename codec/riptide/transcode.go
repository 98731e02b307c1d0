package riptide

// Transcode reads a payload's values in one dialect and appends them to dst in the other. It does not allocate if dst
// has room for the result and 8 bytes more. The result exceeds the payload by at most a byte for each bool and length
// in the schema.
//
// Data with the same form in both dialects does not change a bit, even a NaN or a string of invalid UTF-8. Some values
// have several forms (a bool of 2, a number with needless bytes). They become the library's form. If there is an
// error, it is one of this package's, and out is dst.
func (s Schema) Transcode(dst []byte, from, to Version, payload []byte, pad uint8) (
	out []byte, outPad uint8, err error,
) {
	r, w := NewReader(from, payload, pad), NewWriter(to, dst)
	for i := range s {
		s[i].transcode(&r, &w)
	}
	if err = r.Finish(); err != nil {
		return dst, 0, err
	}
	if out, outPad, err = w.Finish(); err != nil {
		return dst, 0, err
	}
	return out, outPad, nil
}

func (t *Type) transcode(r *Reader, w *Writer) {
	n := t.count
	switch {
	case n == lengthFirst:
		n = r.Length(t.bits)
		w.Length(n)
	case n == notArray && t.form == boolean:
		w.Bool(r.Bool())
		return
	case n == notArray:
		n = 1
	}
	// The payload bounds every loop, even for a large count in the schema.
	if !r.has(n * t.bits) {
		return
	}
	switch t.form {
	case numeric:
		copyBits(r, w, n*t.bits)
	case boolean:
		copyBits(r, w, n)
		r.align()
		w.align()
	case text:
		for range n {
			size := r.Length(8)
			w.Length(size)
			copyBits(r, w, 8*size)
		}
	case varint:
		for range n {
			w.VarULong(r.VarULong())
		}
	case bitField:
		for range n {
			w.Bits(r.Bits(t.bits), t.bits)
		}
	}
}

// copyBits copies n bits, which the payload has. Numbers, bytes and packed bools are the same in both dialects.
func copyBits(r *Reader, w *Writer, n int) {
	for ; n > 64; n -= 64 {
		w.fixed(r.fixed(64), 64)
	}
	w.fixed(r.fixed(n), n)
}
