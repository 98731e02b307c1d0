package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"
)

const xdpRedirect = 4

// newTestVolley loads the program of a flood, which is sent by no device, or skips the test where the kernel will not have it.
func newTestVolley(t *testing.T, f *flood) *volley {
	t.Helper()
	v := new(volley)
	t.Cleanup(func() { _ = v.close() })
	switch err := v.load(f, 1, []byte("to....from....")); {
	case errors.Is(err, os.ErrPermission):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return v
}

// try runs the program once, and returns what it does with a frame, and the frame.
func (v *volley) try(t *testing.T) (verdict uint32, frame []byte) {
	t.Helper()
	verdict, frame, err := v.program.Test(make([]byte, frameHeader))
	if err != nil {
		t.Fatal(err)
	}
	return verdict, frame
}

// TestVolley reads back the frames of a program: they have the sources that the flood is to have, and a right checksum.
func TestVolley(t *testing.T) {
	player := netip.MustParseAddrPort("198.18.64.1:5000")
	for _, kind := range kindsOfSources {
		f := &flood{arena: &arena{server: home, sources: [2]byte{198, 19}}, assault: &kind, shots: []shot{{doorRiptide, forgedPayload}},
			players: []netip.AddrPort{player}, to: [doors]netip.AddrPort{doorRiptide: netip.AddrPortFrom(home, 7777)}}
		v := newTestVolley(t, f)
		checkForged(t, f, func() []byte {
			verdict, frame := v.try(t)
			if verdict != xdpRedirect || !bytes.HasPrefix(frame, []byte("to....from....")) {
				t.Fatalf("verdict %d on %x", verdict, frame)
			}
			sum := uint32(0)
			for at := 14; at < 34; at += 2 {
				sum += uint32(binary.BigEndian.Uint16(frame[at:]))
			}
			if sum>>16+sum&0xffff != 0xffff {
				t.Fatalf("a wrong checksum in %x", frame)
			}
			return frame[14:]
		})
	}
}

// TestVolleyKeepsItsPace: a train leaves, and then nothing until the next is due.
func TestVolleyKeepsItsPace(t *testing.T) {
	kind := assault{}
	f := &flood{arena: &arena{server: home, sources: [2]byte{198, 19}}, assault: &kind, shots: []shot{{doorRiptide, forgedPayload}}}
	f.rate = train // the next train is due after a second
	v := newTestVolley(t, f)
	left, began := 0, time.Now()
	for range 3 * train {
		if verdict, _ := v.try(t); verdict == xdpRedirect {
			left++
		}
	}
	most := 2 * train // one is made up for: nothing has left since the clock began
	if time.Since(began) > time.Second/2 {
		t.Skip("this machine is too slow to tell")
	}
	if left != most {
		t.Errorf("%d have left, want %d", left, most)
	}
}
