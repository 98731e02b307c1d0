package await

import (
	"errors"
	"testing"
)

// TestUntilNothingIsWrong checks that each function checks as often as needed and no more.
func TestUntilNothingIsWrong(t *testing.T) {
	looks := 0
	third := func() bool { looks++; return looks == 3 }
	Nil(t, func() error {
		if third() {
			return nil
		}
		return errors.New("too soon")
	})
	if looks != 3 {
		t.Errorf("Nil looked %d times, want 3", looks)
	}
	looks = 0
	if Until(t, "there", third); looks != 3 {
		t.Errorf("Until looked %d times, want 3", looks)
	}
	looks = 0
	news := make(chan struct{}, 3)
	for range cap(news) {
		news <- struct{}{}
	}
	if News(t, "there", news, third); looks != 3 || len(news) != 1 {
		t.Errorf("News looked %d times and left %d pieces, want 3 and 1", looks, len(news))
	}
}
