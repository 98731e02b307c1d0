package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/testkit/await"
)

// TestAccessLogRotates writes more than one file holds. All lines are whole, and a line begins each file.
func TestAccessLogRotates(t *testing.T) {
	c := config.Default()
	c.Log.AccessFile = filepath.Join(t.TempDir(), "access.jsonl")
	access, end, err := openAccessLog(c, 1, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 200_000)
	for i := range 40 {
		access.Log().Int("session", i).Str("text", text).Send()
		await.Until(t, "the line is written", func() bool {
			b, err := os.ReadFile(c.Log.AccessFile)
			return err == nil && bytes.Contains(b, fmt.Appendf(nil, `"session":%d,`, i))
		})
	}
	end()
	await.Until(t, "old files are deleted", func() bool {
		files, err := filepath.Glob(strings.TrimSuffix(c.Log.AccessFile, ".jsonl") + "*")
		return err == nil && len(files) == 1+accessFiles
	})
	files, _ := filepath.Glob(strings.TrimSuffix(c.Log.AccessFile, ".jsonl") + "*")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || len(b) > int(config.MiB) {
			t.Errorf("%s: %d bytes, %v", file, len(b), err)
		}
		for line := range bytes.Lines(b) {
			if !json.Valid(line) {
				t.Errorf("%s has the line %.80q", file, line)
			}
		}
	}
}

// TestAccessLogThatCannotBeOpened is an error at the start.
func TestAccessLogThatCannotBeOpened(t *testing.T) {
	c := config.Default()
	c.Log.AccessFile = filepath.Join(t.TempDir(), "missing", "access.jsonl")
	if _, _, err := openAccessLog(c, 1, zerolog.Nop(), nil); err == nil ||
		!strings.Contains(err.Error(), "log.access_file") {
		t.Errorf("error %v", err)
	}
}
