package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The collector lets garbage of a burst of handshakes be until as much is allocated again, and keeps the room that it
// takes: twice what sessions need, and more. A proxy whose players are all there allocates next to nothing, so that would
// last. It is given back to the system once allocating has calmed down.
const (
	memoryLook = time.Second
	// memoryCalm is longer than an idle connection keeps its working memory.
	memoryCalm = 10 * time.Second
	// leastStir is how many bytes are worth a collection, however small the heap is.
	leastStir = 2 << 20
	// stirShare is the share of the heap that is.
	stirShare = 4
	// calmShare is the share of what is worth a collection that may be allocated in one look and pass for calm.
	calmShare = 64
)

// memoryKeeper gives memory back to the system when there has been a stir, and then calm. Time is an argument.
type memoryKeeper struct {
	samples []metrics.Sample
	total   uint64    // bytes allocated so far
	given   uint64    // of those when memory was last given back
	stirred time.Time // when much was last allocated
}

func newMemoryKeeper(now time.Time) *memoryKeeper {
	k := &memoryKeeper{samples: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}, stirred: now}
	k.total, _ = k.read()
	return k
}

// keepMemory has a memoryKeeper look after the process until the function that it returns is called.
func keepMemory() (end func()) {
	ctx, end := context.WithCancel(context.Background())
	go newMemoryKeeper(time.Now()).run(ctx)
	return end
}

// run looks every now and then until ctx is done.
func (k *memoryKeeper) run(ctx context.Context) {
	ticks := time.NewTicker(memoryLook)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			allocated, live := k.read()
			if k.look(now, allocated, live) {
				debug.FreeOSMemory()
			}
		}
	}
}

// read is how many bytes have been allocated so far, and how many were needed at the last collection.
func (k *memoryKeeper) read() (allocated, live uint64) {
	metrics.Read(k.samples)
	return k.samples[0].Value.Uint64(), k.samples[1].Value.Uint64()
}

// look reports whether memory should be given back now.
func (k *memoryKeeper) look(now time.Time, allocated, live uint64) bool {
	worth := max(leastStir, live/stirShare)
	if allocated-k.total > worth/calmShare {
		k.stirred = now
	}
	k.total = allocated
	if allocated-k.given < worth || now.Sub(k.stirred) < memoryCalm {
		return false
	}
	k.given = allocated
	return true
}
