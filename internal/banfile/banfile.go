// Package banfile keeps bans in a file that several processes read and change: a running proxy, commands, editors. Each
// line is a ban, as a JSON object:
//
//	{"prefix":"192.0.2.0/24","reason":"bot","author":"ann","since":"2026-11-21T10:00:00Z","until":"2026-11-22T10:00:00Z"}
//
// Only prefix is required. A ban without until is permanent. Start with File.
package banfile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"tidegate/internal/cidr"
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

// maxBans bounds the bans in a file. A test lowers it.
var maxBans = 1_000_000

// maxLine bounds a line, in bytes: the longest argument of a command line, with every byte escaped.
const maxLine = 1 << 20

// MaxText bounds a ban's reason and its author, in bytes. Longer ones are cut when they are read or written.
const MaxText = 1 << 10

// Record is a ban as it is written.
type Record struct {
	Prefix string    `json:"prefix"`
	Reason string    `json:"reason,omitempty"`
	Author string    `json:"author,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"` // absent: permanent
	Times  int       `json:"times,omitempty"`
}

// RecordOf returns the written form of a ban.
func RecordOf(b ratelimit.Ban) Record {
	return Record{b.Prefix.String(), Cut(b.Reason), Cut(b.Author), b.Since.UTC(), b.Until.UTC(), b.Times}
}

// Cut returns the first MaxText bytes of a text, without a part of a character at the end.
func Cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxText], "")
}

// Ban returns the ban of a record. It checks the network, and cuts long texts.
func (r *Record) Ban() (ratelimit.Ban, error) {
	prefix, err := cidr.Parse(r.Prefix)
	if err != nil {
		return ratelimit.Ban{}, err
	}
	return ratelimit.Ban{
		Prefix: prefix, Reason: Cut(r.Reason), Author: Cut(r.Author), Since: r.Since.UTC(), Until: r.Until.UTC(),
		Times: max(0, r.Times),
	}, nil
}

// parse reads a ban from each line that is not empty. If several lines name one network, the last one counts.
func parse(r io.Reader) ([]ratelimit.Ban, error) {
	var bans []ratelimit.Ban
	places := make(map[netip.Prefix]int)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		ban, err := parseLine(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		if i, ok := places[ban.Prefix]; ok {
			bans[i] = ban
			continue
		}
		if len(bans) == maxBans {
			return nil, fmt.Errorf("%d: more than %d bans", n, maxBans)
		}
		places[ban.Prefix] = len(bans)
		bans = append(bans, ban)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%d: %w", n, err)
	}
	return bans, nil
}

func parseLine(line []byte) (ratelimit.Ban, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return ratelimit.Ban{}, fmt.Errorf("want an object of JSON: %w", err)
	}
	if d.More() {
		return ratelimit.Ban{}, fmt.Errorf("want one object of JSON on a line")
	}
	return r.Ban()
}

// format writes bans, one per line. It refuses what parse would refuse.
func format(w io.Writer, bans []ratelimit.Ban) error {
	if len(bans) > maxBans {
		return fmt.Errorf("%d bans: a file has room for %d", len(bans), maxBans)
	}
	lines := bufio.NewWriter(w)
	out := json.NewEncoder(lines)
	out.SetEscapeHTML(false)
	for _, b := range bans {
		if err := out.Encode(RecordOf(b)); err != nil {
			return err
		}
	}
	return lines.Flush()
}
