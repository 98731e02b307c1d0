package cli

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/config"
)

// length is the value of a flag for a duration, as in the configuration.
type length config.Duration

// Set implements cli.Generic.
func (l *length) Set(text string) error {
	if (*config.Duration)(l).UnmarshalText([]byte(text)) != nil {
		return errors.New(`want a duration with its unit (ms, s, m, h or d), for example "90s" or "7d"`)
	}
	return nil
}

// String returns the duration for the help.
func (l *length) String() string { return config.Duration(*l).String() }

// durationFlag is a flag for a duration. durationOf returns its value.
func durationFlag(f cli.GenericFlag, value time.Duration) *cli.GenericFlag {
	of := length(value)
	f.Value = &of
	return &f
}

// durationOf returns the value of a durationFlag.
func durationOf(c *cli.Context, name string) time.Duration {
	if of, ok := c.Generic(name).(*length); ok {
		return time.Duration(*of)
	}
	return 0
}
