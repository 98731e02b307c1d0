package riptide

import (
	"strings"
	"testing"
)

func TestTextOfGoodbyes(t *testing.T) {
	for _, v := range []Version{V20, V22} {
		for _, text := range []string{"", "afk", "räuberisch", strings.Repeat("x", maxText)} {
			data, pad := appendText(v, []byte("before"), text)
			r := NewReader(v, data[len("before"):], pad)
			if got := string(r.AppendString(nil)); got != text {
				t.Errorf("version %v reads %q, want %q", v, got, text)
			}
		}
		data, _ := appendText(v, nil, strings.Repeat("x", 5000))
		if len(data) > maxText+2 {
			t.Errorf("version %v writes %d bytes", v, len(data))
		}
	}
}
