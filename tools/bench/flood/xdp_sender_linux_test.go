package flood

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"tidegate/tools/bench/process"
)

const xdpRedirect = 4

// newTestSender loads the program of a plan without a real device. It skips the test where the kernel refuses the
// program.
func newTestSender(t *testing.T, p *plan) *xdpSender {
	t.Helper()
	s := new(xdpSender)
	t.Cleanup(func() { _ = s.close() })
	switch err := s.load(p, 1, []byte("to....from....")); {
	case errors.Is(err, os.ErrPermission):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return s
}

// try runs the program once and returns its verdict and the frame.
func (s *xdpSender) try(t *testing.T) (verdict uint32, frame []byte) {
	t.Helper()
	verdict, frame, err := s.program.Test(make([]byte, frameHeader))
	if err != nil {
		t.Fatal(err)
	}
	return verdict, frame
}

// TestXDPSender checks the sources and checksums of a program's frames.
func TestXDPSender(t *testing.T) {
	client := netip.MustParseAddrPort("198.18.64.1:5000")
	for _, kind := range sourceKinds {
		p := testPlan(&testbed{server: process.Loopback, sources: [2]byte{198, 19}}, &kind, client)
		s := newTestSender(t, p)
		checkForged(t, p, func() []byte {
			verdict, frame := s.try(t)
			if verdict != xdpRedirect || !bytes.HasPrefix(frame, []byte("to....from....")) {
				t.Fatalf("verdict %d on %x", verdict, frame)
			}
			sum := uint32(0)
			for at := 14; at < 34; at += 2 {
				sum += uint32(binary.BigEndian.Uint16(frame[at:]))
			}
			if sum>>16+sum&0xffff != 0xffff {
				t.Fatalf("wrong checksum in %x", frame)
			}
			return frame[14:]
		})
	}
}

// TestXDPSenderPace sends two trains, and then nothing until the next one is due.
func TestXDPSenderPace(t *testing.T) {
	p := testPlan(&testbed{server: process.Loopback, sources: [2]byte{198, 19}}, &attack{}, netip.AddrPort{})
	p.clients = nil
	p.rate = train // the next train is due after a second
	s := newTestSender(t, p)
	left, began := 0, time.Now()
	for range 3 * train {
		if verdict, _ := s.try(t); verdict == xdpRedirect {
			left++
		}
	}
	most := 2 * train // one of them makes up for the time since the clock's start
	if time.Since(began) > time.Second/2 {
		t.Skip("this machine is too slow for the test")
	}
	if left != most {
		t.Errorf("%d datagrams sent, want %d", left, most)
	}
}
