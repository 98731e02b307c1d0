package enum

import "testing"

type color uint8

var colors = []string{"", "red", "green"}

func TestNamesThereAndBack(t *testing.T) {
	for i, name := range colors {
		if got := Name(colors, color(i)); got != name {
			t.Errorf("%d is %q, want %q", i, got, name)
		}
		got := color(9)
		if err := Parse(colors, []byte(name), &got); (err == nil) != (name != "") || err == nil && got != color(i) {
			t.Errorf("%q is %d, %v; want %d", name, got, err, i)
		}
	}
	if got := Name(colors, color(3)); got != "unknown" {
		t.Errorf("3 is %q", got)
	}
	if err := Parse(colors, []byte("blue"), new(color)); err == nil || err.Error() != `"blue": want one of , red, green` {
		t.Errorf("blue: %v", err)
	}
}
