package main

import "strings"

// examples are command lines to try, for a command's Description. A test runs each.
func examples(lines ...string) string {
	return "Examples:\n\n   " + strings.Join(lines, "\n   ")
}
