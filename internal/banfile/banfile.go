// Package banfile keeps bans in a file that several processes read and change: a running proxy, commands, editors. Each
// line is a ban, as a JSON object:
//
//	{"prefix":"192.0.2.0/24","reason":"bot","author":"ann","since":"2026-11-21T10:00:00Z","until":"2026-11-22T10:00:00Z"}
//
// Only prefix is required. A ban without until is permanent. Start with File.
package banfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gofrs/flock"

	"tidegate/internal/regular"
	"tidegate/ratelimit"
)

// File is the path of a ban file. The file need not exist.
type File string

// patience is the longest wait for the lock of another process.
const patience = 5 * time.Second

// WriteError is returned by Sync if the bans were read and merged, but the file could not be changed.
type WriteError struct{ err error }

// Error implements error.
func (e *WriteError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.err }

// Sync merges bans with the file, as ratelimit.Bans.Sync does, under the file's lock. A malformed file changes nothing.
// A file that cannot be written is still read; the error is then a WriteError.
func (f File) Sync(now time.Time, bans *ratelimit.Bans) error {
	unlock, locked := f.lock()
	if locked == nil {
		defer unlock()
	}
	return bans.Sync(now, f.Read, func(all []ratelimit.Ban) error {
		err := locked
		if err == nil {
			err = f.write(all)
		}
		if err != nil {
			return &WriteError{err}
		}
		return nil
	})
}

// lock keeps other processes from changing the file. It locks a file beside it, since the file itself gets replaced.
func (f File) lock() (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := regular.Check(string(f) + ".lock"); err != nil {
		return nil, fmt.Errorf("lock %s: %w", f, err)
	}
	lock := flock.New(string(f)+".lock", flock.SetPermissions(0o644))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock %s: %w", f, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// Read returns the bans in the file, at most one per network. The error names the line.
func (f File) Read() ([]ratelimit.Ban, error) {
	file, err := regular.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	bans, err := parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", f, err)
	}
	return bans, nil
}

// write replaces the file. Readers see either the old bans or the new ones, also after a crash.
func (f File) write(bans []ratelimit.Ban) error {
	var text bytes.Buffer
	err := format(&text, bans)
	if err == nil {
		err = regular.Replace(string(f), 0o644, text.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f, err)
	}
	return nil
}
