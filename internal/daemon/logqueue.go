package daemon

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the queue. A line of the log has 200 to 400 bytes.
const (
	queuedLines = 8192
	queuedBytes = 4 << 20
)

// LogQueue decouples the process from a slow log: a pipe without a reader, a stopped terminal, a full disk. Write never
// blocks and never fails. Lines beyond the bounds, and lines that cannot be written, are lost and counted. It is safe for
// concurrent use.
type LogQueue struct {
	w     io.Writer
	lines chan *logLine
	bytes atomic.Int64 // in lines
	lost  atomic.Uint64
	end   chan struct{} // closed by Close
	ended chan struct{} // closed when all has been written after that
	close sync.Once

	// resumed is called, by the goroutine that writes, when lines were lost and the log flows again. May be nil.
	resumed atomic.Pointer[func(lost uint64)]
}

type logLine struct{ text []byte }

// logLines are spare.
var logLines = sync.Pool{New: func() any { return new(logLine) }}

// NewLogQueue returns a queue in front of w. Close ends it.
func NewLogQueue(w io.Writer) *LogQueue {
	q := &LogQueue{
		w: w, lines: make(chan *logLine, queuedLines), end: make(chan struct{}), ended: make(chan struct{}),
	}
	go q.run()
	return q
}

// Write implements io.Writer. It takes whole lines.
func (q *LogQueue) Write(text []byte) (int, error) {
	size := int64(len(text))
	if q.bytes.Add(size) > queuedBytes {
		q.bytes.Add(-size)
		q.lost.Add(1)
		return len(text), nil
	}
	line := logLines.Get().(*logLine)
	line.text = append(line.text[:0], text...)
	select {
	case q.lines <- line:
	default:
		q.bytes.Add(-size)
		q.lost.Add(1)
		logLines.Put(line)
	}
	return len(text), nil
}

// Lost is how many lines were lost so far.
func (q *LogQueue) Lost() uint64 { return q.lost.Load() }

// Close waits until the queue is empty, at most for patience, and reports whether it is. Later lines are lost.
func (q *LogQueue) Close(patience time.Duration) bool {
	q.close.Do(func() { close(q.end) })
	select {
	case <-q.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

func (q *LogQueue) run() {
	defer close(q.ended)
	var t teller
	for {
		select {
		case line := <-q.lines:
			q.write(line, &t)
		case <-q.end:
			for {
				select {
				case line := <-q.lines:
					q.write(line, &t)
				default:
					return
				}
			}
		}
	}
}

// teller knows what the log tells of lost lines.
type teller struct {
	told uint64
	seen time.Time // when there was more to tell; zero: there is not
}

// tellAfter is when a log that is slow, and never catches up, tells of lost lines. Else they are told of where they are
// missing: after the lines that waited.
const tellAfter = time.Second

// write writes a line, and tells of lost ones if that works.
func (q *LogQueue) write(line *logLine, t *teller) {
	_, err := q.w.Write(line.text)
	q.bytes.Add(-int64(len(line.text)))
	logLines.Put(line)
	if err != nil {
		q.lost.Add(1)
		return
	}
	lost, tell := q.lost.Load(), q.resumed.Load()
	switch {
	case lost == t.told || tell == nil:
	case len(q.lines) == 0 || !t.seen.IsZero() && time.Since(t.seen) >= tellAfter:
		(*tell)(lost - t.told)
		t.told, t.seen = lost, time.Time{}
	case t.seen.IsZero():
		t.seen = time.Now()
	}
}
