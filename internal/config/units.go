package config

import (
	"errors"

	"tidegate/internal/units"
)

// errUnit says that a text does not have the form of its type. The resulting fault names the right form.
var errUnit = errors.New("not of the right form")

type (
	// Duration is a time with its unit, as in protocol options.
	Duration = units.Duration
	// Size is a number of bytes with its unit.
	Size = units.Size
	// Key is 64 hexadecimal digits, or "file:" and the path of a file with them. Validation replaces the path by the
	// content.
	Key = units.Key
)

// Units of Size.
const (
	KiB = units.KiB
	MiB = units.MiB
	GiB = units.GiB
)
