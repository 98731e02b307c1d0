// Package await waits in tests for events on other goroutines, in the kernel or in another process. It is the only
// place where tests may poll. Prefer the virtual clock, a channel or a read with a deadline where possible.
package await

import (
	"errors"
	"testing"
	"time"
)

// Patience is the longest wait for an event that must come, also on a busy machine.
const Patience = 90 * time.Second

// interval is the pause between polls: long enough to leave a small machine to the awaited goroutines.
const interval = 5 * time.Millisecond

// Nil polls until check returns nil, or fails the test with check's last error.
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

// Until polls until done returns true, or fails the test with "not" and the text.
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

// Within polls until done returns true, and reports whether it did within a time. Use it where a test has a result to
// show, also after a failure.
func Within(limit time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(limit); !done(); time.Sleep(interval) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// News is Until without polling: news signals each change.
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
