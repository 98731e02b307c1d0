package config

import (
	"reflect"
	"strconv"

	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// checkOptions checks a table of a protocol by the protocol's own rules.
func (v *validator) checkOptions(options any, path string) {
	if c, ok := options.(registry.Checker); ok {
		c.Check(optionReport{v, path})
	}
}

// bounded checks the values of a table, and of the tables in it, by the tags of their fields.
func (v *validator) bounded(path string, table reflect.Value) {
	for i := range table.NumField() {
		field, value := table.Type().Field(i), table.Field(i)
		key := child(path, field.Tag.Get("toml"))
		switch {
		case field.Tag.Get("toml") == everyTable:
			for _, d := range protocols.Tables() {
				if options := value.Interface().(Options).Of(d); options != nil {
					v.bounded(child(path, d.Table), reflect.ValueOf(options).Elem())
				}
			}
		case field.Tag.Get("toml") == "":
		case isTable(value.Type()):
			v.bounded(key, value)
		case value.Kind() == reflect.Slice && isTable(value.Type().Elem()):
			for j := range value.Len() {
				v.bounded(item(key, j), value.Index(j))
			}
		default:
			v.bounds(key, value, field.Tag)
		}
	}
}

// bounds checks one value by the tags of its field.
func (v *validator) bounds(key string, value reflect.Value, tags reflect.StructTag) {
	low, high := tags.Get(registry.TagMin), tags.Get(registry.TagMax)
	if processKey(key) != "" && !v.source.has(key) {
		return // it is the process's value, which is checked there
	}
	if _, ok := tags.Lookup(registry.TagSet); ok {
		v.set(key, value)
	}
	switch {
	case high == "":
	case value.Kind() == reflect.String:
		v.length(key, value.String(), high)
	default:
		if n := whole(value); n < whole(bound(value, low)) || n > whole(bound(value, high)) {
			v.fault(key, value.Interface(), render(bound(value, low).Interface())+" to "+render(bound(value, high).Interface()))
		}
	}
}

// length checks the number of bytes of a text.
func (v *validator) length(key, text, high string) {
	if most, _ := strconv.Atoi(high); len(text) > most {
		v.fault(key, text, "at most "+high+" bytes of text")
	}
}

// set checks that a list has no duplicates.
func (v *validator) set(key string, list reflect.Value) {
	elements := make([]any, list.Len())
	for i := range elements {
		elements[i] = list.Index(i).Interface()
	}
	unique(v.report, key, elements, "")
}

// optionReport collects a table's faults.
type optionReport struct {
	v     *validator
	table string
}

// Fault implements registry.Report.
func (r optionReport) Fault(key string, value any, want string) {
	r.v.fault(child(r.table, key), value, want)
}

// Entry implements registry.Report.
func (r optionReport) Entry(key, entry string, value any, want string) {
	r.v.fault(child(child(r.table, key), entry), value, want)
}

// Key implements registry.Report.
func (r optionReport) Key(key string, value *Key, because string, needed bool) {
	r.v.secret(child(r.table, key), because, value, needed)
}
