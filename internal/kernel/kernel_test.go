package kernel

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestUnavailable checks that the operator is told what to do about each cause, and that the cause can be asked for.
func TestUnavailable(t *testing.T) {
	for _, test := range []struct {
		cause error
		want  string
	}{
		{syscall.EPERM, "socket filter: not permitted: needs root, or the capabilities CAP_BPF and CAP_NET_ADMIN"},
		{errors.ErrUnsupported, "socket filter: not in this kernel"},
		{ErrSystem, "socket filter: this operating system cannot; Linux can"},
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
