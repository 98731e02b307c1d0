package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

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
