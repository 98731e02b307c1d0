package config

import (
	"errors"

	"tidegate/internal/units"
)

// errUnit says that a text does not have the form of its type; the fault that it leads to names the right form.
var errUnit = errors.New("not of the right form")

type (
	// Duration is a time with its unit, as options of protocols have it.
	Duration = units.Duration
	// Size is a number of bytes with its unit.
	Size = units.Size
	// Key is 64 hexadecimal digits, or "file:" and the path of a file with them. Validation puts the content in the place of
	// the path.
	Key = units.Key
)

// Units of Size.
const (
	KiB = units.KiB
	MiB = units.MiB
	GiB = units.GiB
)
