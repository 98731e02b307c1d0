package kernel

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestUnavailable checks that the text names a remedy for each cause, and that errors.Is finds the cause.
func TestUnavailable(t *testing.T) {
	for _, test := range []struct {
		cause error
		want  string
	}{
		{syscall.EPERM, "socket filter: not permitted: needs root, or the capabilities CAP_BPF and CAP_NET_ADMIN"},
		{errors.ErrUnsupported, "socket filter: not in this kernel"},
		{ErrSystem, "socket filter: not on this operating system; only on Linux"},
	} {
		var err error = &Unavailable{What: "socket filter", Err: test.cause}
		if !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q, want it to begin with %q", err, test.want)
		}
		if !errors.Is(err, test.cause) {
			t.Errorf("%v does not wrap %v", err, test.cause)
		}
	}
}
