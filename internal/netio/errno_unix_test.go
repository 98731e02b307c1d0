//go:build unix

package netio

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want failure
		told error
	}{
		{syscall.EAGAIN, wouldBlock, nil},
		{syscall.EMSGSIZE, tooLarge, nil},
		{syscall.ECONNREFUSED, refused, ErrRefused},
		{syscall.EHOSTUNREACH, unreachable, ErrUnreachable},
		{syscall.ENETUNREACH, unreachable, ErrUnreachable},
		{syscall.EPERM, otherFailure, nil},
		{&net.OpError{Op: "write", Err: os.NewSyscallError("sendto", syscall.EMSGSIZE)}, tooLarge, nil},
		{errors.New("not of the system"), otherFailure, nil},
	} {
		got := classify(c.err)
		if got != c.want || !errors.Is(got.err(), c.told) {
			t.Errorf("classify(%v) = %d, of which the handler is told %v; want %d, %v", c.err, got, got.err(), c.want, c.told)
		}
	}
}

// TestRefusesSource has the errors after which the portable backend sends from the address that the system chooses.
func TestRefusesSource(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, syscall.EMSGSIZE: false, syscall.ECONNREFUSED: false, syscall.EINVAL: true,
		os.NewSyscallError("sendmsg", syscall.EADDRNOTAVAIL): true,
	} {
		if got := refusesSource(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// TestCounters checks that each failure has its own counter.
func TestCounters(t *testing.T) {
	var sent, received Stats
	for f := otherFailure; f <= unreachable; f++ {
		sent.countSend(f, 10)
		received.countReceive(f)
	}
	if want := (Stats{WouldBlock: 10, TooLarge: 10, Refused: 10, Errors: 20}); sent != want {
		t.Errorf("sending: %+v, want %+v", sent, want)
	}
	if want := (Stats{Truncated: 1, Refused: 1, Errors: 3}); received != want {
		t.Errorf("receiving: %+v, want %+v", received, want)
	}
}
