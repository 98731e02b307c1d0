package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/capture"
	"tidegate/internal/config"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	"tidegate/ratelimit"
)

const (
	// maxEnded bounds the sessions whose files wait to be written.
	maxEnded = 64
	// When a server is lost, all its sessions end at once. Their files must not replace all earlier ones.
	fileEvery = time.Second
	fileBurst = 16
	// maxRecordings is the most files in the directory: each new one lists them.
	maxRecordings = 10_000
	// lastFiles bounds the time for the remaining files at the end of the process.
	lastFiles = 2 * time.Second
)

// recordings writes a file of the last datagrams of each session that ends in an abnormal way. The files are in one
// directory and bounded in number and size. The loops only put sessions into a queue.
type recordings struct {
	directory string
	files     int
	size      int64 // of all files together, in bytes
	recorded  func(context.Context, recording.RecordFilter, func(*recording.Catch) error) error
	log       zerolog.Logger

	queue   chan relay.Ended
	limiter ratelimit.Limiter // of files; guarded by mu
	mu      sync.Mutex
	skipped uint64 // sessions without a file since the last one; guarded by mu
}

// openRecordings returns the recordings of a configuration; nil if sessions are not saved. The directory must exist and
// be writable.
func openRecordings(c *config.Config, log zerolog.Logger) (*recordings, error) {
	directory := c.Path(c.Record.Directory)
	if directory == "" || c.Record.Last == 0 {
		return nil, nil
	}
	probe, err := os.CreateTemp(directory, ".tidegate-*") // to fail now, not at the first session
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return nil, fmt.Errorf("record.directory: %w", err)
	}
	return &recordings{
		directory: directory, files: maxRecordings, size: int64(c.Record.FilesSize()), log: log,
		queue: make(chan relay.Ended, maxEnded), limiter: ratelimit.Limiter{Every: fileEvery, Burst: fileBurst},
	}, nil
}

// ended puts a session into the queue, unless too many have ended. Loops call it.
func (r *recordings) ended(e relay.Ended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limiter.Allow(e.At) {
		select {
		case r.queue <- e:
			return
		default:
		}
	}
	r.skipped++
}

// start writes files until the returned function is called, which writes the files of the queue.
func (r *recordings) start() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case e := <-r.queue:
				r.save(ctx, &e)
				continue
			default:
			}
			select {
			case e := <-r.queue:
				r.save(ctx, &e)
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		select {
		case <-done:
		case <-time.After(lastFiles):
			cancel()
			<-done
		}
		cancel()
	}
}

// save writes the file of a session, and deletes the oldest files beyond the bounds.
func (r *recordings) save(ctx context.Context, e *relay.Ended) {
	r.mu.Lock()
	skipped := r.skipped
	r.skipped = 0
	r.mu.Unlock()
	if skipped > 0 {
		r.log.Warn().Uint64("sessions", skipped).Msg("sessions not saved: too many ended at once")
	}
	name, datagrams, err := r.write(ctx, e)
	if err != nil {
		r.log.Warn().Stringer("session", e.Session).Err(err).Msg("session not saved")
		return
	}
	r.log.Info().Stringer("session", e.Session).Str("reason", e.Reason.String()).Stringer("by", e.By).Str("file", name).
		Uint64("datagrams", datagrams).Msg("session saved")
}

// filePattern matches the files of this package. The time comes first, so that the order of names is that of time.
const filePattern = "tidegate-*.pcapng"

// write writes the file of a session. It gets its name once it is whole.
func (r *recordings) write(ctx context.Context, e *relay.Ended) (name string, datagrams uint64, err error) {
	file, err := os.CreateTemp(r.directory, ".tidegate-*") // mode 0600
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	about := fmt.Sprintf("session %s of listener %s ended: %s, by the %s", e.Session, e.Listener, e.Reason, e.By)
	datagrams, err = r.fill(ctx, file, e, about)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", 0, err
	}
	info, err := os.Stat(file.Name())
	if err != nil {
		return "", 0, err
	}
	if info.Size() > r.size {
		return "", 0, fmt.Errorf("its file has %d bytes: raise record.memory", info.Size())
	}
	if err = r.makeRoom(info.Size()); err != nil {
		return "", 0, err
	}
	name = filepath.Join(r.directory, fmt.Sprintf("tidegate-%s-session-%s-%s.pcapng",
		e.At.UTC().Format("20060102T150405.000Z"), e.Session, e.Reason))
	return name, datagrams, os.Rename(file.Name(), name)
}

// fill writes the datagrams of a session.
func (r *recordings) fill(ctx context.Context, file *os.File, e *relay.Ended, about string) (uint64, error) {
	w, err := capture.NewWriter(file, Version(), about)
	if err != nil {
		return 0, err
	}
	err = r.recorded(ctx, recording.RecordFilter{Session: e.Session, Peer: e.Client}, w.Write)
	datagrams, _ := w.Totals()
	return datagrams, err
}

// makeRoom deletes the oldest files until there is room for one more of a size.
func (r *recordings) makeRoom(size int64) error {
	names, err := filepath.Glob(filepath.Join(r.directory, filePattern)) // sorted
	if err != nil {
		return err
	}
	sizes, total := make([]int64, len(names)), size
	for i, name := range names {
		if info, err := os.Stat(name); err == nil {
			sizes[i] = info.Size()
			total += sizes[i]
		}
	}
	for i, name := range names {
		if total <= r.size && len(names)-i < r.files {
			return nil
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		total -= sizes[i]
	}
	return nil
}
