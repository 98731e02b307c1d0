package codectest

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	"tidegate/codec"
)

// savedMoments is the number of moments of a simulation whose fields are checked.
const savedMoments = 12

// checkSavedFields changes each field of a Conn by itself, at some moments of a session. A restored Conn must have the
// changed value, or Restore must refuse the record. So a field that a codec forgets to save shows, also if it changes
// no datagram of the suite. Config.Derived names the fields that are not saved.
func checkSavedFields(t tb, c *Config) {
	lost := make(map[string]bool)
	twin := *c
	twin.twins = true
	derived := append(slices.Clone(c.Derived), "stats.Lenient", "link.stats.Lenient") // follows from other fields
	simulateSeeds(t, numberOfSaveSeeds(), func(r *report, seed uint64) {
		twin.fields = &fieldCheck{rng: rand.New(rand.NewPCG(seed, 4)), lost: lost, derived: derived}
		trafficPair(r, &twin, weather{net: foul.net, excuse: true}, c.New, c.modes, seed)
	})
	for path := range lost {
		t.Errorf("saved fields: %s is neither restored nor in Config.Derived", path)
	}
}

// fieldCheck is the check of one simulation.
type fieldCheck struct {
	rng     *rand.Rand
	moments int
	lost    map[string]bool // paths of fields that were not restored
	derived []string
}

// look checks the fields of a Conn now, at some of the moments when it may be saved.
func (f *fieldCheck) look(now time.Time, conn codec.Conn, protocol codec.Protocol) {
	if f.moments == savedMoments || f.rng.IntN(10) > 0 {
		return
	}
	f.moments++
	fields := fieldsOf(conn, f.derived)
	for path, field := range fields {
		old := reflect.New(field.Type()).Elem()
		old.Set(field)
		if ChangeField(field, now) {
			changed := reflect.New(field.Type()).Elem()
			changed.Set(field)
			if restored := saveAndRestore(now, conn, protocol); restored != nil {
				got, found := fieldsOf(restored, f.derived)[path]
				if !found || !SameField(got, changed) {
					f.lost[path] = true
				}
			}
		}
		field.Set(old)
	}
}

// saveAndRestore returns nil if the record is refused. A changed field may also make Save panic, since it contradicts
// others.
func saveAndRestore(now time.Time, conn codec.Conn, protocol codec.Protocol) (restored codec.Conn) {
	defer func() {
		if recover() != nil {
			restored = nil
		}
	}()
	restored, err := protocol.Restore(now, nil, conn.Save(now, nil))
	if err != nil {
		return nil
	}
	return restored
}

// ChangeField changes a field to another value, if its type is a plain one. It reports whether it did.
func ChangeField(field reflect.Value, now time.Time) bool {
	switch {
	case field.Type() == reflect.TypeFor[time.Time]():
		t := field.Interface().(time.Time)
		if t.IsZero() {
			t = now
		}
		field.Set(reflect.ValueOf(t.Add(time.Millisecond)))
	case field.Kind() == reflect.Bool:
		field.SetBool(!field.Bool())
	case field.CanInt():
		field.SetInt(field.Int() + 1)
	case field.CanUint():
		field.SetUint(field.Uint() + 1)
	case field.CanFloat():
		field.SetFloat(field.Float() + 0.25)
	default:
		return false
	}
	return true
}

// SameField reports whether two fields have the same value.
func SameField(a, b reflect.Value) bool {
	if t, ok := a.Interface().(time.Time); ok {
		return t.Equal(b.Interface().(time.Time))
	}
	return a.Equal(b)
}

// fieldsOf returns the plain fields of a Conn by their path, without lists and without pointers that are not embedded.
// It leaves out all below a derived field.
func fieldsOf(conn codec.Conn, derived []string) map[string]reflect.Value {
	fields := make(map[string]reflect.Value)
	collect(reflect.ValueOf(conn).Elem(), "", derived, fields)
	return fields
}

func collect(v reflect.Value, path string, derived []string, fields map[string]reflect.Value) {
	switch {
	case slices.Contains(derived, path):
	case v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[time.Time]():
		fields[path] = v
	default:
		for i := range v.NumField() {
			f, field := v.Field(i), v.Type().Field(i)
			f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem() // also if it is not exported
			if f.Kind() == reflect.Pointer && field.Anonymous && !f.IsNil() {
				f = f.Elem()
			}
			collect(f, strings.TrimPrefix(path+"."+field.Name, "."), derived, fields)
		}
	}
}
