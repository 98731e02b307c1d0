package config

import (
	"slices"
	"testing"
)

func TestFixed(t *testing.T) {
	old, next := Default(), Default()
	if got := old.Fixed(next); len(got) > 0 {
		t.Errorf("equal configurations differ in %v", got)
	}
	next.Log.Level, next.Loop.Count, next.Limits.Sessions = Debug, 3, 7
	if got, want := old.Fixed(next), []string{"log.level", "loop.count"}; !slices.Equal(got, want) {
		t.Errorf("Fixed = %v, want %v", got, want)
	}
}
