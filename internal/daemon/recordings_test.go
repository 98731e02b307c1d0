package daemon

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/testkit/await"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// recordingInto returns recordings with a datagram of a size for each session.
func recordingInto(t *testing.T, size int, change func(*config.Record)) *recordings {
	t.Helper()
	c := config.Default()
	c.Record.Last, c.Record.Directory = config.Duration(time.Minute), t.TempDir()
	change(&c.Record)
	r, err := openRecordings(c, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	r.recorded = func(_ context.Context, f recording.RecordFilter, take func(*recording.Catch) error) error {
		return take(&recording.Catch{Captured: []recording.Captured{{
			At: began, From: f.Peer, To: netip.MustParseAddrPort("192.0.2.9:7777"), Session: f.Session,
			Bytes: make([]byte, size),
		}}})
	}
	return r
}

var began = time.Unix(1_700_000_000, 0)

// endedAt is the end of the i-th session, i seconds after the first.
func endedAt(i int) relay.Ended {
	return relay.Ended{
		At: began.Add(time.Duration(i) * time.Second), Session: session.ID(i + 1), By: stats.ByProxy,
		Client: netip.MustParseAddrPort("192.0.2.1:5000"), Listener: "play", Reason: codec.TimedOut,
	}
}

func filesIn(t *testing.T, r *recordings) (names []string, bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(r.directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", e.Name(), info.Mode())
		}
		names, bytes = append(names, e.Name()), bytes+info.Size()
	}
	return names, bytes
}

// TestRecordingsAreBounded saves more sessions than there may be files, and more bytes. The newest files stay.
func TestRecordingsAreBounded(t *testing.T) {
	for what, c := range map[string]struct{ most, want int }{"by number": {5, 5}, "by size": {maxRecordings, 17}} {
		r := recordingInto(t, 60_000, func(*config.Record) {})
		r.files, r.size = c.most, 1<<20
		for i := range 40 {
			e := endedAt(i)
			r.save(t.Context(), &e)
		}
		names, bytes := filesIn(t, r)
		if len(names) != c.want || bytes > r.size ||
			!strings.HasSuffix(names[len(names)-1], "Z-session-14-timed-out.pcapng") {
			t.Errorf("%s: %d files of %d bytes: %q", what, len(names), bytes, names)
		}
	}
}

// TestRecordingsThatFail leave no file behind.
func TestRecordingsThatFail(t *testing.T) {
	r := recordingInto(t, 10, func(*config.Record) {})
	r.recorded = func(context.Context, recording.RecordFilter, func(*recording.Catch) error) error {
		return captures.ErrNothingRecorded
	}
	e := endedAt(0)
	if _, _, err := r.write(t.Context(), &e); !errors.Is(err, captures.ErrNothingRecorded) {
		t.Errorf("error %v", err)
	}
	large := recordingInto(t, 60_000, func(*config.Record) {})
	large.size = 1000
	if _, _, err := large.write(t.Context(), &e); err == nil || !strings.Contains(err.Error(), "raise record.memory") {
		t.Errorf("error %v", err)
	}
	for _, r := range []*recordings{r, large} {
		if names, _ := filesIn(t, r); len(names) > 0 {
			t.Errorf("files %q", names)
		}
	}
}

// TestRecordingsQueue saves all sessions of a calm time, and few of many that end at once. A loop never waits.
func TestRecordingsQueue(t *testing.T) {
	r := recordingInto(t, 10, func(*config.Record) {})
	for i := range 1000 {
		e := endedAt(i)
		e.At = began
		r.ended(e)
	}
	if len(r.queue) != fileBurst || r.skipped != 1000-fileBurst {
		t.Errorf("%d sessions wait, %d were skipped", len(r.queue), r.skipped)
	}
	end := r.start()
	await.Until(t, "the queue is empty", func() bool { return len(r.queue) == 0 })
	r.ended(endedAt(2000))
	end()
	if names, _ := filesIn(t, r); len(names) != fileBurst+1 {
		t.Errorf("files %q", names)
	}
}

// TestRecordingsDirectory is a fault at the start if it is missing, and not needed while nothing is recorded.
func TestRecordingsDirectory(t *testing.T) {
	c := config.Default()
	c.Record.Directory = filepath.Join(t.TempDir(), "missing")
	if r, err := openRecordings(c, zerolog.Nop()); r != nil || err != nil {
		t.Errorf("without a recording: %v, %v", r, err)
	}
	c.Record.Last = config.Duration(time.Second)
	if _, err := openRecordings(c, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "record.directory") {
		t.Errorf("error %v", err)
	}
}
