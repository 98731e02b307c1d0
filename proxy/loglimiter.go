package proxy

import (
	"net/netip"
	"time"

	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// lineKind is what a line of the journal is about: a Drop, or one of those below.
type lineKind uint8

// Kinds of lines beside drops.
const (
	lineJoined = lineKind(stats.DropCount) + iota
	lineEnded
	lineFailed // the end of a session that was never established
	lineBanned
	lineKinds
)

// A line about one kind of drop is written at most this often: a flood must not fill the disk.
const (
	dropLogEvery = 5 * time.Second
	dropLogBurst = 3
)

// And lines about sessions at most this often, of each kind: ten thousand players may join and leave in an hour.
const (
	sessionLogEvery = 20 * time.Millisecond
	sessionLogBurst = 1000
)

// sourceLog is what one network of sources may have told of one kind, in lines a minute: none takes all lines of a
// kind.
var sourceLog = ratelimit.Rate{PerSecond: 60, Burst: 60}

// dropSourceLog is the same of drops.
var dropSourceLog = ratelimit.Rate{PerSecond: 1, Burst: 2}

// sourceLogNetworks are what counts as one source.
var sourceLogNetworks = ratelimit.Networks{V4: 24, V6: 64}

// catchUpAfter is how long what was left out may stay untold, when no further line of its kind tells it.
const catchUpAfter = time.Minute

// logLimiter decides which lines are written, and counts the others, in memory that does not grow.
type logLimiter struct {
	start      time.Time
	limits     [lineKinds]ratelimit.Limiter
	suppressed [lineKinds]uint64 // since the last line of the kind
	sources    *ratelimit.HashedBuckets
	due        time.Time // when what was left out is told; zero: nothing was
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

// allow reports whether a line about a source may be written, and how many of its kind were left out since the last
// one.
func (h *logLimiter) allow(now time.Time, k lineKind, from netip.Addr) (suppressed uint64, ok bool) {
	// The kind goes first: in a flood it is what refuses, and it is in the processor's caches.
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

// hears reports whether a source's network may have a line of a kind, and counts it if so.
func (h *logLimiter) hears(now time.Time, k lineKind, from netip.Addr) bool {
	rate, minutes := sourceLog, now.Sub(h.start)/60
	if k.isDrop() {
		rate = dropSourceLog
	}
	return h.sources.OfKind(sourceLogNetworks.Of(from), uint8(k)).Take(minutes, rate, 1)
}

// catchUp tells of all that was left out, once that is due.
func (j *journal) catchUp(now time.Time) {
	h := &j.lines
	if h.due.IsZero() || now.Before(h.due) {
		return
	}
	h.due = time.Time{}
	for k := range h.suppressed {
		if h.suppressed[k] > 0 {
			j.log.Warn().Str("about", lineKind(k).String()).Uint64("suppressed", h.suppressed[k]).Msg("lines left out")
			h.suppressed[k] = 0
		}
	}
}

// settle tells at once of all that was left out: there may be no later.
func (j *journal) settle(now time.Time) {
	if !j.lines.due.IsZero() {
		j.lines.due = now
		j.catchUp(now)
	}
}

// String is what the lines are about.
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
