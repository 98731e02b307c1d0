package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/tools/bench/scenario"
)

// program is a tidegate that the tests have built.
var program string

// TestMain also runs the proxy on go-raknet, which scenarios start by this program's own path.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == scenario.GoRakNet {
		os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(test(m))
}

func test(m *testing.M) int {
	folder, err := os.MkdirTemp("", "tidegate-bench-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program = filepath.Join(folder, "tidegate")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

// bench runs a command line.
func bench(t *testing.T, line string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	args := append([]string{"tidegate-bench", "--tidegate", program}, strings.Fields(line)...)
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestScenarios runs each scenario for a moment.
func TestScenarios(t *testing.T) {
	for _, line := range []string{
		"forward --sessions 10 --rounds 1 --window 200ms",
		"bridge --from riptide-2.2 --sessions 10 --rounds 1 --window 200ms",
		"ticks --sessions 10 --rounds 1 --window 200ms",
		"handshakes --from raknet --to raknet --rounds 1 --window 200ms",
		"join --path 10ms --loss 5% --rounds 1 --window 1s",
		"bulk --messages 20 --path 10ms --loss 1% --rounds 1",
		"sessions --sessions 100 --rounds 1 --window 200ms",
		"upgrade --sessions 100 --window 1s",
		"flood --loopback --kind pings --players 2 --rate 1000 --window 200ms",
	} {
		code, stdout, stderr := bench(t, line)
		if code != 0 || stdout == "" {
			t.Errorf("%s: code %d, prints %q, says\n%s", line, code, stdout, stderr)
		}
	}
	code, stdout, stderr := bench(t, "forward --sessions 10 --rounds 1 --window 200ms --json")
	if code != 0 || !json.Valid([]byte(stdout)) {
		t.Errorf("code %d, prints %q, says\n%s", code, stdout, stderr)
	}
}

// TestMisuse refuses what cannot be measured.
func TestMisuse(t *testing.T) {
	for line, want := range map[string]string{
		"forward --size 0":    "datagrams of 0 bytes: cannot be measured: want 20 to 1200",
		"flood --kind rain":   `"rain"`,
		"bridge now":          `unexpected argument "now"`,
		"join --loss plenty":  "want a share",
		"go-raknet 127.0.0.1": "want three addresses",
	} {
		if code, _, stderr := bench(t, line); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, says %q, want %q", line, code, stderr, want)
		}
	}
}
