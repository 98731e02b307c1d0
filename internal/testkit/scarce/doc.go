// Package scarce lets set-ups fail in tests, each step once: descriptors run out at the first step that needs one, then
// at the second, and so on.
package scarce
