package config

import (
	"cmp"
	"slices"
)

// report collects the faults and warnings of one configuration, one a key: what follows from a fault is not worth a
// second line.
type report struct {
	source   *index
	faults   Faults
	warnings []Fault
	settled  map[string]bool // keys not to be reported again
}

func newReport(source *index) *report {
	return &report{source: source, settled: make(map[string]bool)}
}

// settle keeps later faults of a key out of the report.
func (r *report) settle(key string) { r.settled[key] = true }

// fault reports what a key should be instead of value.
func (r *report) fault(key string, value any, want string) {
	if !r.settled[key] {
		r.settle(key)
		r.faults = append(r.faults, r.describe(r.source.find(key).value, key, value, want))
	}
}

// unknown reports a key that does not exist.
func (r *report) unknown(key string, value any, want string) {
	r.faults = append(r.faults, r.describe(r.source.find(key).key, key, value, want))
}

// warn reports what works but was hardly meant.
func (r *report) warn(key string, value any, want string) {
	r.warnings = append(r.warnings, r.describe(r.source.find(key).value, key, value, want))
}

func (r *report) describe(at position, key string, value any, want string) Fault {
	f := Fault{File: r.source.name(), Line: at.line, Column: at.column, Key: key, Want: want}
	if r.source.has(key) || !isZero(value) {
		f.Value = render(value)
	}
	return f
}

// result returns the faults, as an error that is nil if there are none, or else the warnings; both in the order of the
// file. Warnings beside faults would mostly follow from them.
func (r *report) result() (warnings []Fault, err error) {
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, inFileOrder)
		return nil, r.faults
	}
	slices.SortStableFunc(r.warnings, inFileOrder)
	return r.warnings, nil
}

func inFileOrder(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
