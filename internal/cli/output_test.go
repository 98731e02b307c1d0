package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// fullDisk accepts no bytes.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestOutputThatFails reports a failed output once, for every command.
func TestOutputThatFails(t *testing.T) {
	for _, args := range [][]string{
		{"version"}, {"check", "-c", "config.example.toml"}, {"demo", "--list"}, {"demo", "--show-config"}, {"--help"},
		{"decode", handshake}, {"demo", "--for", "1s", "--clients", "1"},
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), exampleConfig, append([]string{"tidegate"}, args...), fullDisk{}, &stderr)
		if code != 1 || strings.Count(stderr.String(), "no space left") != 1 {
			t.Errorf("%v: code %d, says %q; want 1 and the reason, once", args, code, stderr.String())
		}
	}
}

// TestOutputIsSafe checks that texts from captures, ban files and arguments cannot control a terminal, in whichever
// output of a command they appear.
func TestOutputIsSafe(t *testing.T) {
	const evil = "\x1b]0;title\x07\x1b[2J\u009b31m\u202eevil\r"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	bans := write(t, fmt.Sprintf(`{"prefix":"192.0.2.7","reason":%s,"author":%[1]s}`, quoted))
	configuration := write(t,
		bridgeConfig("127.0.0.1:1")+"[admin]\nlisten = \"off\"\n[bans]\nfile = \""+filepath.ToSlash(bans)+"\"\n")
	capture := write(t, fmt.Sprintf(
		`{"protocol":"riptide-2.2","t_ms":1,"from":"client","hex":"00","what":%s,"relay":%[1]s}`, quoted))
	for _, args := range [][]string{
		{"decode", capture}, {"decode", "--json", capture}, {"decode", evil}, {evil}, {"ban", "list", "-c", configuration},
		{"ban", "list", "--json", "-c", configuration}, {"ban", "del", "-c", configuration, evil},
		{"why", "-c", configuration, "192.0.2.7"}, {"why", "--json", "-c", configuration, "192.0.2.7"},
		{"check", "-c", evil}, {"ping", evil}, {"help", evil}, {"--" + evil},
	} {
		_, stdout, stderr := tidegate(t, args...)
		if strings.IndexFunc(stdout+stderr, func(r rune) bool { return r != safe(r) }) >= 0 {
			t.Errorf("%q prints %q, %q", args, stdout, stderr)
		}
	}
}

// TestRawOutput checks that the bytes of files and drawings pass.
func TestRawOutput(t *testing.T) {
	var printed bytes.Buffer
	c := cli.NewContext(&cli.App{Writer: &output{Writer: &printed}}, nil, nil)
	text := []byte{0, 0x1b, 0x9b, '\r', 'x'}
	_, _ = c.App.Writer.Write(text)
	if printed.String() != "????x" {
		t.Errorf("printed %q", printed.String())
	}
	printed.Reset()
	_, _ = rawOutput(c).Write(text)
	if !bytes.Equal(printed.Bytes(), text) {
		t.Errorf("raw: %q", printed.Bytes())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
