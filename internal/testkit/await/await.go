// Package await waits in tests for what comes of itself: on other goroutines, in the kernel, in another process. It is the
// only place in tests that may look again and again; whatever can be had by the virtual clock, a channel or a read with a
// deadline is better had so.
package await

import (
	"errors"
	"testing"
	"time"
)

// Patience is how long to wait for what must come, on a machine that is busy too.
const Patience = 30 * time.Second

// interval is how often to look: seldom enough to leave a small machine to those who are waited for.
const interval = 5 * time.Millisecond

// Nil looks until check has nothing to complain of, or fails the test with its last complaint.
func Nil(t testing.TB, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(interval) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", Patience, err)
		}
	}
}

// Until looks until done, or fails the test for what is not so.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	not := errors.New("not " + what)
	Nil(t, func() error {
		if done() {
			return nil
		}
		return not
	})
}

// News is Until where news tells of each change, so that nothing is looked at in between.
func News(t testing.TB, what string, news <-chan struct{}, done func() bool) {
	t.Helper()
	late := time.After(Patience)
	for !done() {
		select {
		case <-news:
		case <-late:
			t.Fatalf("after %v: not %s", Patience, what)
		}
	}
}
