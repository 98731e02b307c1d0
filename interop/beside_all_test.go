//go:build interop && beside

package interop_test

import "testing"

// TestBeside plays all rows.
func TestBeside(t *testing.T) { playAll(t, besideRows()) }
