//go:build !windows

package top

import (
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"tidegate/internal/testkit/await"
)

// TestTerminal runs the view on a terminal: it draws the players, follows a key, and quits.
func TestTerminal(t *testing.T) {
	user, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = user.Close(); _ = terminal.Close() }()
	if err := pty.Setsize(user, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), Options{Client: new(fakeProxy).client(t), Title: "tidegate", In: terminal, Out: terminal})
	}()
	var seen strings.Builder
	until := func(text string) {
		t.Helper()
		buffer := make([]byte, 4096)
		_ = user.SetReadDeadline(time.Now().Add(await.Patience))
		for !strings.Contains(seen.String(), text) {
			n, err := user.Read(buffer)
			if err != nil {
				t.Fatalf("%v before %q; the terminal shows %q", err, text, seen.String())
			}
			seen.Write(buffer[:n])
		}
		seen.Reset()
	}
	until("192.0.2.3:5000")
	_, _ = user.WriteString("3")
	until("UPSTREAM")
	_, _ = user.WriteString("q")
	until("\x1b[?1049l") // the screen from before is back
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
