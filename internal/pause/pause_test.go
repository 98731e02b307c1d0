package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestFor waits for a whole time, and for a context that ends sooner.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !For(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("the pause took %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began = time.Now(); For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("the pause of a context took %v", time.Since(began))
		}
	})
}

// TestEvery takes the times of a context, and the first two only of one without an end.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, times := time.Now(), []time.Duration{}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		for at := range Every(ctx, 10*time.Second) {
			times = append(times, at.Sub(began))
		}
		if len(times) != 3 || times[0] != 0 || times[2] != 20*time.Second || time.Since(began) != 25*time.Second {
			t.Errorf("it yields at %v", times)
		}
		taken := 0
		for range Every(t.Context(), time.Second) {
			if taken++; taken == 2 {
				break
			}
		}
		if time.Since(began) != 26*time.Second {
			t.Errorf("the second time is after %v", time.Since(began))
		}
	})
}
