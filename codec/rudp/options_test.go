package rudp

import (
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	library := Options{
		Rate: 100, MaxPayload: 4080, MaxJoined: 1384, MaxQueued: 1 << 20, DialTimeout: 3 * time.Second,
	}
	if got := (Options{}).withDefaults(); got != library {
		t.Errorf("defaults %+v, want %+v", got, library)
	}
	own := Options{AppID: 7, Rate: 1, MaxPayload: 10, MaxJoined: 20, MaxQueued: 30, DialTimeout: 1, base: 9}
	if got := own.withDefaults(); got != own {
		t.Errorf("%+v became %+v", own, got)
	}
	// A peer receives no more than 4096 bytes, whatever is asked for.
	large := Options{MaxPayload: 5000, MaxJoined: 5000}.withDefaults()
	if large.MaxPayload != 4080 || large.MaxJoined != 4080 {
		t.Errorf("packets of %d and %d bytes", large.MaxPayload, large.MaxJoined)
	}
}
