package cli

import (
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"
)

// day is the longest unit of a duration.
const day = 24 * time.Hour

// length is the value of a flag for a duration. Unlike time.ParseDuration it knows days.
type length time.Duration

// inDays finds the days at the front of a duration.
var inDays = regexp.MustCompile(`^(\d{1,5})d(.*)$`)

// Set implements cli.Generic.
func (l *length) Set(text string) error {
	var days time.Duration
	rest := text
	if parts := inDays.FindStringSubmatch(text); parts != nil {
		n, _ := strconv.Atoi(parts[1])
		days, rest = time.Duration(n)*day, parts[2]
		if rest == "" {
			rest = "0s"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return errors.New(`want a duration with its unit (ms, s, m, h or d), for example "90s" or "7d"`)
	}
	*l = length(days + d)
	return nil
}

// String returns the duration for the help.
func (l *length) String() string { return shortDuration(time.Duration(*l)) }

// shortDuration formats a duration without parts that are zero.
func shortDuration(d time.Duration) string {
	if d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if n := len(text) - len(zero); n > 0 && text[n:] == zero {
			text = text[:n+1]
		}
	}
	return text
}

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
