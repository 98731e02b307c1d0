package daemon

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"tidegate/internal/config"
	"tidegate/internal/pause"
)

// Go's collector ignores the garbage of a burst of handshakes until as many bytes are allocated again, and keeps that
// memory: more than twice the sessions' need. A proxy whose clients have all joined allocates almost nothing, so the
// memory would stay. It is returned to the system after allocations have calmed down.
const (
	memoryLook = time.Second
	// memoryCalm is longer than an idle connection keeps its working memory.
	memoryCalm = 10 * time.Second
	// minBurst is the number of allocated bytes that justify a collection, for a small heap.
	minBurst = 2 << 20
	// burstShare divides the heap's size for that number of a large heap.
	burstShare = 4
	// calmShare divides that number: the quotient may be allocated between two looks of a calm process.
	calmShare = 64
)

// memoryReleaser returns memory to the system after a burst of allocations and a calm time. Time is an argument.
type memoryReleaser struct {
	samples   []metrics.Sample
	total     uint64    // bytes allocated so far
	released  uint64    // value of total at the latest release
	lastBurst time.Time // time of the latest burst
}

func newMemoryReleaser(now time.Time) *memoryReleaser {
	k := &memoryReleaser{samples: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}},
		lastBurst: now}
	k.total, _ = k.read()
	return k
}

// releaseMemory runs a memoryReleaser for the process until the returned function is called.
func releaseMemory() (end func()) {
	ctx, end := context.WithCancel(context.Background())
	go newMemoryReleaser(time.Now()).run(ctx)
	return end
}

// run looks at regular intervals until ctx is done.
func (k *memoryReleaser) run(ctx context.Context) {
	for now := range pause.Every(ctx, memoryLook) {
		allocated, live := k.read()
		if k.look(now, allocated, live) {
			debug.FreeOSMemory()
		}
	}
}

// read returns the bytes allocated so far, and the bytes in use at the latest collection.
func (k *memoryReleaser) read() (allocated, live uint64) {
	metrics.Read(k.samples)
	return k.samples[0].Value.Uint64(), k.samples[1].Value.Uint64()
}

// look reports whether memory should be returned now.
func (k *memoryReleaser) look(now time.Time, allocated, live uint64) bool {
	worth := max(minBurst, live/burstShare)
	if allocated-k.total > worth/calmShare {
		k.lastBurst = now
	}
	k.total = allocated
	if allocated-k.released < worth || now.Sub(k.lastBurst) < memoryCalm {
		return false
	}
	k.released = allocated
	return true
}

// upgradeGarbage is the share of garbage in percent of the heap that the collector lets an upgrade make. Each
// collection would take time from players that wait.
const upgradeGarbage = 800

// restCollector lets the collector rest until the returned function is called.
func restCollector() (end func()) {
	usual := debug.SetGCPercent(upgradeGarbage)
	return func() { debug.SetGCPercent(usual) }
}

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
