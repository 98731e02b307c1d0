package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/testkit/await"
)

// pipe is a log that can block or fail.
type pipe struct {
	mu     sync.Mutex // the test holds it to block the pipe
	text   bytes.Buffer
	broken bool
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return 0, errors.New("broken pipe")
	}
	return p.text.Write(b)
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// TestLogQueueNeverBlocks writes to a blocked log. The queue takes a bounded number of lines, counts the others, and
// reports them when the log flows again. The queued lines arrive whole and in order.
func TestLogQueueNeverBlocks(t *testing.T) {
	for name, size := range map[string]int{"many lines": 100, "long lines": 60_000} {
		t.Run(name, func(t *testing.T) {
			lines := 3 * min(queuedLines, queuedBytes/size)
			var p pipe
			p.mu.Lock()
			q := NewLogQueue(&p)
			log := newLog(config.Default(), q, false)
			filler := strings.Repeat("x", size)
			for i := range lines {
				log.Info().Int("n", i).Msg(filler)
			}
			if got := q.bytes.Load(); got > queuedBytes {
				t.Errorf("%d bytes wait, more than %d", got, queuedBytes)
			}
			lost := q.Lost()
			if lost == 0 || lost >= uint64(lines) {
				t.Errorf("%d of %d lines are lost", lost, lines)
			}
			p.mu.Unlock()
			want := fmt.Sprintf(`"lines":%d`, lost)
			await.Until(t, "reporting lost lines", func() bool { return strings.Contains(p.String(), want) })
			last := -1
			for _, line := range strings.SplitN(p.String(), "\n", lines-int(lost)+1)[:lines-int(lost)] {
				var written struct{ N int }
				if err := json.Unmarshal([]byte(line), &written); err != nil || written.N <= last {
					t.Fatalf("%v; after line %d comes %.80s", err, last, line)
				}
				last = written.N
			}
			log.Info().Msg("goes on")
			if !q.Close(await.Patience) || !strings.Contains(p.String(), "goes on") {
				t.Error("the last line is not there")
			}
		})
	}
}

// TestLogQueueOutlivesErrors counts lines that cannot be written, and reports them when the log works again.
func TestLogQueueOutlivesErrors(t *testing.T) {
	p := pipe{broken: true}
	q := NewLogQueue(&p)
	log := newLog(config.Default(), q, false)
	for range 3 {
		log.Info().Msg("lost")
	}
	await.Until(t, "lost", func() bool { return q.Lost() == 3 })
	p.mu.Lock()
	p.broken = false
	p.mu.Unlock()
	log.Info().Msg("written")
	await.Until(t, "told", func() bool { return strings.Contains(p.String(), `"lines":3`) })
}

// TestLogQueueEndsInTime ends the process in time although the log blocks.
// fullDisk is a log with room for some bytes.
type fullDisk struct {
	pipe
	room int
}

func (d *fullDisk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(b), d.room)
	d.room -= n
	d.text.Write(b[:n])
	if n < len(b) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// TestFullDiskIsTold fills the disk of a log in the middle of a line, and makes room again. The first failure is told
// at once, and once. Later lines stand alone.
func TestFullDiskIsTold(t *testing.T) {
	d := &fullDisk{room: 12}
	q := NewLogQueue(d)
	told := make(chan error, 8)
	report := func(err error) { told <- err }
	q.failed.Store(&report)
	for _, line := range []string{"line 1\n", "line 2\n", "line 3\n"} {
		_, _ = q.Write([]byte(line))
	}
	await.Until(t, "lost", func() bool { return q.Lost() == 2 })
	d.mu.Lock()
	d.room = 100
	d.mu.Unlock()
	_, _ = q.Write([]byte("line 4\n"))
	if !q.Close(await.Patience) || len(told) != 1 {
		t.Errorf("told %d times", len(told))
	}
	if got := d.String(); got != "line 1\nline \nline 4\n" {
		t.Errorf("the log is %q", got)
	}
}

func TestLogQueueEndsInTime(t *testing.T) {
	var p pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	q := NewLogQueue(&p)
	_, _ = q.Write([]byte("line\n"))
	if q.Close(time.Millisecond) {
		t.Error("the queue is empty, says Close")
	}
}

// TestLogQueueAllocates asserts that a line allocates nothing.
func TestLogQueueAllocates(t *testing.T) {
	q := NewLogQueue(new(nowhere))
	defer q.Close(await.Patience)
	line := bytes.Repeat([]byte("x"), 300)
	_, _ = q.Write(line)
	if n := allocs.PerRun(1000, func() {
		_, _ = q.Write(line)
		for q.bytes.Load() > 0 { // a line's memory is reused only after it is written
			runtime.Gosched()
		}
	}); n > 0.1 {
		t.Errorf("%v allocations a line", n)
	}
}

type nowhere struct{}

func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }
