package daemon

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
)

// limitMemory tells Go's collector the limit of the process's control group. Go knows none by itself, and lets the heap
// double before it collects. A quarter of the limit is left to the kernel's buffers and to programs beside it.
// GOMEMLIMIT replaces the limit.
func limitMemory(log zerolog.Logger, c *config.Config) {
	limit := groupLimit(os.DirFS("/"))
	if limit == 0 {
		return
	}
	soft := debug.SetMemoryLimit(-1)
	if soft == math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" {
		soft = limit / 4 * 3
		debug.SetMemoryLimit(soft)
	}
	log.Info().Int64("limit", limit).Int64("collector", soft).Msg("memory limit of the control group")
	if bound := c.MemoryBound(); bound > soft {
		log.Warn().Int64("limit", limit).Int64("bound", bound).
			Str("remedy", "raise the limit, or lower limits.held_bytes, the limit of queued_bytes or limits.sessions").
			Msg("memory limit is too small for the configured bounds")
	}
}

// groupLimit returns the smallest memory limit of the process's control groups, or 0 if there is none. It knows both
// versions of control groups. A container may see its own group at the root only.
func groupLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	for _, line := range strings.Split(string(groups), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		if fields[1] != "" && fields[1] != "memory" {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if limit := readLimit(root, mount+path.Join(group, file)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// noLimit is less than the number by which version 1 says that there is no limit.
const noLimit = 1 << 60

// readLimit returns the limit of a file, or 0 if there is none.
func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit >= noLimit { // "max"
		return 0
	}
	return limit
}
