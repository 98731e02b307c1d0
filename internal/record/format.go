package record

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

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
		formats[kind] = format{version, reflect.TypeFor[T]()}
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

// Types returns the types of all records by their kinds.
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
