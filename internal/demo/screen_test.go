package demo

import (
	"os"
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, step := range []struct {
		what, text, want string
	}{
		{"nothing", "", ""},
		{"just fits", "1234567890\n", "1234567890\n"},
		{"a space just beyond", "123 567890 2345\n", "123 567890\n2345\n"},
		{"a space just within", "123 56789 12345", "123 56789\n12345"},
		{"several spaces", "ab     cd   ef\n", "ab     cd\nef\n"},
		{"three lines", "12345 12345 12345\n", "12345\n12345\n12345\n"},
		{"a long word", "12345678901 2\n\n", "12345678901 2\n\n"},
		{"a long word last", "1 12345678901\n", "1\n12345678901\n"},
	} {
		if got := (screen{width: 10}).wrap(step.text); got != step.want {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}

// TestScreenUnknown asks for the size of a writer that is not a terminal.
func TestScreenUnknown(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := screenOf(file)(); got != ordinary {
		t.Errorf("a file has the size %v, want %v", got, ordinary)
	}
	if got := screenOf(new(strings.Builder))(); got != ordinary {
		t.Errorf("a builder has the size %v, want %v", got, ordinary)
	}
}
