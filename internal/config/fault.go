package config

import (
	"fmt"
	"strings"
)

// Fault is one mistake in a configuration file, or a warning.
type Fault struct {
	File   string // as given to Load or Parse
	Line   int    // from 1; 0 if the configuration does not come from a file
	Column int    // from 1, in bytes
	Key    string // path of the key, for example listener[0].address; empty if the file is not TOML
	Value  string // the wrong value as TOML; empty if there is none
	Want   string // remedy: the form of a right value
}

// Error returns the fault in one line: file:line:column: key = value: want remedy.
func (f Fault) Error() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	}
	if f.Key != "" {
		b.WriteString(f.Key)
		if f.Value != "" {
			b.WriteString(" = " + f.Value)
		}
		b.WriteString(": ")
	}
	b.WriteString("want " + f.Want)
	return b.String()
}

// Faults are all mistakes in one file, in the order of the file.
type Faults []Fault

// Error returns one fault per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults as errors.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i := range f {
		errs[i] = f[i]
	}
	return errs
}
