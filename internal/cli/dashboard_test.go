package cli

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDashboardCommand opens the printed link of a running proxy with a Unix socket, and ends the command.
func TestDashboardCommand(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "admin.sock")
	startProcess(t, bridgeConfig(gameServer(t))+"[admin]\nlisten = '"+socket+"'\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, nil, []string{"tidegate", "dashboard", "--admin", socket}, in, io.Discard) }()
	text := make([]byte, 200)
	n, err := io.ReadAtLeast(out, text, 80)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	link := regexp.MustCompile(`http://127\.0\.0\.1:\d+/dashboard/#key=\w+`).FindString(string(text[:n]))
	if link == "" {
		t.Fatalf("printed %s", text[:n])
	}
	base, key, _ := strings.Cut(link, "dashboard/#key=")
	answer, err := http.Post(base+"login", "application/json", strings.NewReader(`{"key":"`+key+`"}`))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("code %d", code)
	}
}
