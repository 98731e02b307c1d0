package module

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

// codeBytes returns the size of all executable memory without a file. The system joins neighbours, so their number says
// nothing.
func codeBytes(t *testing.T) (sum uint64) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if !strings.Contains(line, " r-xp 00000000 00:00 0") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			t.Fatal(err)
		}
		sum += to - from
	}
	return sum
}

// TestOldProgramsGo reloads many times. The code of unused programs leaves the memory.
func TestOldProgramsGo(t *testing.T) {
	before, all := codeBytes(t), []*Program(nil)
	for range 50 {
		p := compileOdd(t, Options{Memory: 1 << 20, Time: 10 * time.Millisecond}, 2)
		_, _, _ = say(p.Loop(1), "x", nil)
		all = append(all, p)
	}
	made := codeBytes(t) - before
	if made < 50*4096 {
		t.Fatalf("the code of %d programs has %d bytes", len(all), made)
	}
	runtime.KeepAlive(all) // and no longer
	await.Until(t, "most of the code has gone", func() bool {
		runtime.GC()
		return codeBytes(t) < before+made/4
	})
}
