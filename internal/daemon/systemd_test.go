package daemon

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestWatchdogInterval(t *testing.T) {
	for _, c := range []struct {
		usec, owner string
		successor   bool
		want        time.Duration
	}{
		{"", "", false, 0},
		{"soon", "7", false, 0},
		{"30000000", "", false, 30 * time.Second},
		{"30000000", "7", false, 30 * time.Second},
		{"30000000", "8", false, 0},
		{"30000000", "8", true, 30 * time.Second},
	} {
		env := map[string]string{"WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.owner}
		if got := watchdogInterval(func(name string) string { return env[name] }, 7, c.successor); got != c.want {
			t.Errorf("%+v: every %v", c, got)
		}
	}
}

// TestWatchdogIsFedWhileLoopsAnswer sends nothing while a loop hangs, so that systemd restarts the process.
func TestWatchdogIsFedWhileLoopsAnswer(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = socket.Close() }()
	t.Setenv("NOTIFY_SOCKET", address)
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		manager.feedWatchdog(ctx, false, func(context.Context) error {
			switch asked++; {
			case asked == 6:
				cancel()
			case asked > 3:
				return errors.New("a loop does not answer")
			}
			return nil
		})
	}()
	<-ended
	heard := 0
	_ = socket.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	for b := make([]byte, 64); ; heard++ {
		n, err := socket.Read(b)
		if err != nil {
			break
		}
		if string(b[:n]) != "WATCHDOG=1" {
			t.Errorf("notified %q", b[:n])
		}
	}
	if heard != 4 {
		t.Errorf("%d notifications, want 4: the loops did not answer twice", heard)
	}
}
