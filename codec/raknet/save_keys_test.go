package raknet

import (
	"reflect"
	"strings"
	"testing"

	"tidegate/internal/record"
)

// TestSavedKeysDiffer finds two fields of a record with one key, also where one of them is in an embedded struct: the
// encoder leaves out one of them without a word.
func TestSavedKeysDiffer(t *testing.T) {
	seen := make(map[reflect.Type]bool)
	var check func(of reflect.Type, keys map[string]string)
	check = func(of reflect.Type, keys map[string]string) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Array {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || keys == nil && seen[of] {
			return
		}
		if keys == nil {
			seen[of], keys = true, make(map[string]string)
		}
		for field := range of.Fields() {
			key, _, _ := strings.Cut(field.Tag.Get("cbor"), ",")
			switch {
			case field.Anonymous && key == "":
				check(field.Type, keys)
				continue
			case key != "" && keys[key] != "":
				t.Errorf("%v: %s and %s have the key %s", of, field.Name, keys[key], key)
			}
			keys[key] = field.Name
			check(field.Type, nil)
		}
	}
	if check(record.Types()["raknet"], nil); len(seen) < 8 {
		t.Errorf("%d structs", len(seen))
	}
}
