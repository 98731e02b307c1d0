package relay

import (
	"net/netip"
	"time"

	"tidegate/internal/source"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// lineKind is the subject of a log line: a stats.Drop, or one of the kinds below.
type lineKind uint8

// Kinds of lines in addition to drops.
const (
	lineJoined = lineKind(stats.DropCount) + iota
	lineEnded
	lineFailed // the end of a session that was never established
	lineBanned
	lineKinds
)

// dropLogEvery and dropLogBurst bound the lines about one kind of drop: a flood must not fill the disk.
const (
	dropLogEvery = 5 * time.Second
	dropLogBurst = 3
)

// sessionLogEvery and sessionLogBurst bound the lines of each kind about sessions. Ten thousand clients may join and
// leave in an hour.
const (
	sessionLogEvery = 20 * time.Millisecond
	sessionLogBurst = 1000
)

// sourceLog bounds the lines of one kind about one network of sources, in lines per minute. So no network takes all
// lines of a kind.
var sourceLog = ratelimit.Rate{PerSecond: 60, Burst: 60}

// dropSourceLog is the same bound for lines about drops.
var dropSourceLog = ratelimit.Rate{PerSecond: 1, Burst: 2}

// catchUpAfter is the longest time until suppressed lines are reported, if no further line of their kind reports
// them.
const catchUpAfter = time.Minute

// logLimiter decides which lines are written, and counts the suppressed ones. Its memory does not grow.
type logLimiter struct {
	start      time.Time
	limits     [lineKinds]ratelimit.Limiter
	suppressed [lineKinds]uint64 // since the last line of the kind
	sources    *ratelimit.HashedBuckets
	due        time.Time // when suppressed lines are reported; zero: there are none
}

func newLogLimiter(now time.Time, seed uint64) logLimiter {
	h := logLimiter{start: now, sources: ratelimit.NewHashedBuckets(seed)}
	for i := range h.limits {
		h.limits[i] = ratelimit.Limiter{Every: sessionLogEvery, Burst: sessionLogBurst}
		if lineKind(i).isDrop() {
			h.limits[i] = ratelimit.Limiter{Every: dropLogEvery, Burst: dropLogBurst}
		}
	}
	return h
}

func (k lineKind) isDrop() bool { return k < lineKind(stats.DropCount) || k == lineFailed }

// allow reports whether a line about a source may be written. If so, it returns how many lines of its kind were
// suppressed since the last one.
func (h *logLimiter) allow(now time.Time, k lineKind, from netip.Addr) (suppressed uint64, ok bool) {
	// The kind is checked first. In a flood it refuses most lines, and its state is in the processor's caches.
	if h.limits[k].Spent(now) || !h.hears(now, k, from) || !h.limits[k].Allow(now) {
		h.suppressed[k]++
		if h.due.IsZero() {
			h.due = now.Add(catchUpAfter)
		}
		return 0, false
	}
	suppressed, h.suppressed[k] = h.suppressed[k], 0
	return suppressed, true
}

// hears reports whether a source's network may have a line of a kind, and counts the line if so.
func (h *logLimiter) hears(now time.Time, k lineKind, from netip.Addr) bool {
	rate, minutes := sourceLog, now.Sub(h.start)/60
	if k.isDrop() {
		rate = dropSourceLog
	}
	return h.sources.OfKind(source.Of(from).Network(), uint8(k)).Take(minutes, rate, 1)
}

// String returns the subject of the lines.
func (k lineKind) String() string {
	switch k {
	case lineJoined:
		return "session established"
	case lineEnded:
		return "session ended"
	case lineFailed:
		return "session never established"
	case lineBanned:
		return "ban imposed"
	}
	return stats.Drop(k).String()
}
