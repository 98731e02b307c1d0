//go:build unix

package raknet_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"tidegate/codec/raknet"
)

// idlePairs is the number of idle connections in the benchmark, and idleTime how long they are idle.
const (
	idlePairs = 50
	idleTime  = 12 * time.Second
)

// BenchmarkCost measures the cost of a message of 64 bytes, and of an idle connection, for both ends together and
// without sockets. It compares with go-raknet over a network in memory.
func BenchmarkCost(b *testing.B) {
	b.Run("message/ours", func(b *testing.B) {
		pair, payload := newMemoryPair(b, raknet.New(bedrock()), newRoom()), game(64)
		b.ReportAllocs()
		for b.Loop() {
			pair.deliver(payload)
		}
	})
	b.Run("message/go-raknet", func(b *testing.B) {
		pair, payload := newGorkPairs(b, 1)[0], game(64)
		b.ReportAllocs()
		for n := 1; b.Loop(); n++ {
			pair.deliver(b, payload)
			if n%1000 == 0 { // it acknowledges every 100 ms, and gives up at too many
				b.StopTimer()
				<-time.After(200 * time.Millisecond)
				b.StartTimer()
			}
		}
	})
	b.Run("idle/ours", func(b *testing.B) {
		p, room := raknet.New(bedrock()), newRoom()
		benchIdle(b, func() any {
			var pairs [idlePairs]*memoryPair
			for i := range pairs {
				pairs[i] = newMemoryPair(b, p, room)
			}
			return pairs
		}, func(pairs any) {
			for _, pair := range pairs.([idlePairs]*memoryPair) {
				pair.wait(idleTime)
			}
		})
	})
	b.Run("idle/go-raknet", func(b *testing.B) {
		benchIdle(b, func() any { return newGorkPairs(b, idlePairs) }, func(any) { <-time.After(idleTime) })
	})
}

// benchIdle makes pairs, leaves them idle, and measures their memory and their processor time.
func benchIdle(b *testing.B, connect func() any, idle func(pairs any)) {
	for b.Loop() {
		before := memoryInUse()
		pairs := connect()
		start := cpuTime()
		idle(pairs)
		spent := cpuTime() - start
		b.ReportMetric(float64(memoryInUse()-before)/idlePairs, "B/pair")
		b.ReportMetric(float64(spent)/float64(time.Microsecond)/idlePairs/idleTime.Seconds(), "cpu-µs/pair/s")
		runtime.KeepAlive(pairs)
	}
}

// memoryInUse returns the size of heap and stacks.
func memoryInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
