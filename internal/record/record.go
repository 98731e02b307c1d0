// Package record writes and reads saved state: one CBOR map for a struct, with a number for each field. A release so
// reads what another release wrote. Fields are known by numbers that are never used again. Unknown fields are skipped,
// and missing ones keep their zero value. A record's length, depth and numbers of elements are bounded when it is read.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
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

// The library writes and reads records with these options. It writes any string, so it must read any: strangers choose
// some of them.
var (
	writer = must(cbor.EncOptions{NilContainers: cbor.NilContainerAsNull}.UserBufferEncMode())
	reader = must(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxArrayElements: MaxElements, MaxMapPairs: maxFields, MaxNestedLevels: maxDepth, UTF8: cbor.UTF8DecodeInvalid,
	}.DecMode())
)

func must[M any](mode M, err error) M {
	if err != nil {
		panic(err)
	}
	return mode
}

// AppendAt appends v's record to b, with points in time as seen from now. v is a pointer to a struct. Its fields have
// numbers in tags as those of github.com/fxamacker/cbor, with the options keyasint and omitempty, or toarray for the
// struct. It panics at a type that a record cannot have: our own mistake.
func AppendAt(now time.Time, b []byte, v any) []byte {
	p := reflect.ValueOf(v)
	f := formOf(p.Type().Elem())
	room := f.rooms.Get()
	if room == nil {
		room = reflect.New(f.of).Interface()
	}
	saved := reflect.ValueOf(room)
	f.save(now, p.UnsafePointer(), saved.UnsafePointer())
	b = Append(b, room)
	saved.Elem().SetZero()
	f.rooms.Put(room)
	return b
}

// Append is AppendAt for a struct without points in time, whose fields are all exported and numbered.
func Append(b []byte, v any) []byte {
	to := bytes.NewBuffer(b)
	if err := writer.MarshalToBuffer(v, to); err != nil {
		panic(err)
	}
	return to.Bytes()
}

// Is returns an error unless the head is of a kind and version.
func (h *Head) Is(kind string, version int) error {
	if h.Kind != kind || h.Version != version {
		return fmt.Errorf("%w: version %d of %.40q, want version %d of %q", ErrUnreadable, h.Version, h.Kind, version, kind)
	}
	return nil
}

// Open reads a record as Read does. The record must be of the given kind and version.
func Open(b []byte, kind string, version int, v interface {
	Is(kind string, version int) error
}) error {
	if err := Read(b, v); err != nil {
		return err
	}
	return v.Is(kind, version)
}

// ReadAt reads one whole record into v, a pointer to a struct as AppendAt takes it. It sets all numbered fields. The
// result shares no memory with b.
func ReadAt(now time.Time, b []byte, v any) error {
	p := reflect.ValueOf(v)
	f := formOf(p.Type().Elem())
	saved := reflect.New(f.of)
	if err := Read(b, saved.Interface()); err != nil {
		return err
	}
	f.load(now, saved.UnsafePointer(), p.UnsafePointer())
	return nil
}

// Read is ReadAt for a struct of zero value without points in time, whose fields are all exported and numbered.
func Read(b []byte, v any) error {
	if len(b) > MaxLen {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrUnreadable, len(b), MaxLen)
	}
	if err := reader.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %.200s", ErrUnreadable, err) // it may describe a whole form
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

// format is a kind of record that this program writes and reads.
type format struct {
	version int
	of      reflect.Type
}

// formats has the kinds of all records. Packages add theirs when the program starts, and nothing changes it later.
var formats = make(map[string]format)

// Register notes that records of some kinds have a version and are of type T. Call it for a package variable.
func Register[T any](version int, kinds ...string) struct{} {
	for _, kind := range kinds {
		formats[kind] = format{version, formOf(reflect.TypeFor[T]()).of}
	}
	return struct{}{}
}

// Versions returns the versions of all records that this program writes, by their kinds.
func Versions() map[string]int {
	all := make(map[string]int)
	for kind, f := range formats {
		all[kind] = f.version
	}
	return all
}

// Types returns the types of all records by their kinds, as the library writes them.
func Types() map[string]reflect.Type {
	all := make(map[string]reflect.Type)
	for kind, f := range formats {
		all[kind] = f.of
	}
	return all
}

// Readable returns an error if another program writes records in a version that this program cannot read. It ignores
// kinds that only one of the two knows.
func Readable(versions map[string]int) error {
	for _, kind := range slices.Sorted(maps.Keys(versions)) {
		if f, ok := formats[kind]; ok && f.version != versions[kind] {
			return fmt.Errorf("%w: it writes records of %q in version %d, this release reads version %d",
				ErrUnreadable, kind, versions[kind], f.version)
		}
	}
	return nil
}
