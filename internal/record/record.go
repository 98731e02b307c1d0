// Package record writes and reads saved state: one CBOR map for a struct, with a number for each field. A release so
// reads what another release wrote. Fields are known by numbers that are never used again. Unknown fields are skipped,
// and missing ones keep their zero value. A record's length, depth and numbers of elements are bounded when it is read.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
)

const (
	// MaxLen bounds the bytes of one record.
	MaxLen = 64 << 20
	// MaxElements bounds the elements of one list in a record.
	MaxElements = 1 << 17

	maxFields = 256
	maxDepth  = 8
)

// ErrUnreadable is wrapped by all errors of Read and Open.
var ErrUnreadable = errors.New("unreadable record")

// Head begins every record: embed it in the struct of the record. Fields 1 and 2 are taken.
type Head struct {
	Kind    string `cbor:"1,keyasint"` // what the record is of
	Version int    `cbor:"2,keyasint"` // changes only if older readers must refuse the record
}

var writer, reader = modes()

func modes() (cbor.UserBufferEncMode, cbor.DecMode) {
	w, err := cbor.EncOptions{Sort: cbor.SortNone, IndefLength: cbor.IndefLengthForbidden}.UserBufferEncMode()
	if err != nil {
		panic(err)
	}
	r, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxArrayElements: MaxElements, MaxMapPairs: maxFields, MaxNestedLevels: maxDepth,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return w, r
}

// Append appends v's record to b. v is a struct, or a pointer to one, of the types that cbor can write.
func Append(b []byte, v any) []byte {
	buffer := bytes.NewBuffer(b)
	if err := writer.MarshalToBuffer(v, buffer); err != nil {
		panic(fmt.Sprintf("record: %T: %v", v, err)) // a type that cbor does not know: our own mistake
	}
	return buffer.Bytes()
}

// Open reads the head of a record, which must be of the given kind and version.
func Open(b []byte, kind string, version int) error {
	var head Head
	switch err := Read(b, &head); {
	case err != nil:
		return err
	case head.Kind != kind || head.Version != version:
		return fmt.Errorf("%w: version %d of %.40q, want version %d of %q",
			ErrUnreadable, head.Version, head.Kind, version, kind)
	}
	return nil
}

// Read reads one whole record into v. The result shares no memory with b.
func Read(b []byte, v any) error {
	if len(b) > MaxLen {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrUnreadable, len(b), MaxLen)
	}
	if err := reader.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return nil
}

// Moment is a point in time, as the duration from the moment of saving in nanoseconds. Durations from zero upward are
// one larger, so that the zero value means no time.
type Moment int64

// MomentOf returns a time as seen from now.
func MomentOf(now, t time.Time) Moment {
	if t.IsZero() {
		return 0
	}
	d := t.Sub(now)
	if d >= 0 {
		d++
	}
	return Moment(d)
}

// Time returns the point in time, if now is the moment of saving.
func (m Moment) Time(now time.Time) time.Time {
	switch {
	case m == 0:
		return time.Time{}
	case m > 0:
		m--
	}
	return now.Add(time.Duration(m))
}
