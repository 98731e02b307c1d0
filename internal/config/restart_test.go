package config

import (
	"slices"
	"testing"
)

func TestRestartKeys(t *testing.T) {
	old, next := Default(), Default()
	if got := old.RestartKeys(next); len(got) > 0 {
		t.Errorf("equal configurations differ in %v", got)
	}
	next.Log.Level, next.Loop.Count, next.Bans.File = Debug, 3, "other"
	if got, want := old.RestartKeys(next), []string{"log.level", "loop.count", "bans.file"}; !slices.Equal(got, want) {
		t.Errorf("Fixed = %v, want %v", got, want)
	}
}
