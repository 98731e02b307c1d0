// Package filewatch tells when files were changed, replaced, made or removed: the configuration, lists of bans and
// prefixes. It does not read them.
package filewatch

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must rest before its change is told: editors and copies write in several steps.
const settle = 200 * time.Millisecond

// Watcher watches a set of files.
type Watcher struct {
	notify *fsnotify.Watcher
	files  map[string]string // as given, by absolute path
}

// New watches files, which need not exist; the folders that they are in must. The folders are what is watched, since
// most editors replace a file rather than write to it, and a link to the file may be what changes.
func New(files ...string) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{notify: notify, files: make(map[string]string)}
	for _, file := range files {
		if err := w.add(file); err != nil {
			_ = notify.Close() // the error that matters is the one before
			return nil, fmt.Errorf("watch %s: %w", file, err)
		}
	}
	return w, nil
}

func (w *Watcher) add(file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	w.files[path] = file
	return w.notify.Add(filepath.Dir(path))
}

// Run calls changed with each file's name, as it was given to New, once the file has rested for a moment after a change.
// Calls follow one another. It returns when ctx is done, and closes the Watcher.
func (w *Watcher) Run(ctx context.Context, changed func(file string)) {
	defer func() { _ = w.notify.Close() }()
	timer := time.NewTimer(0)
	<-timer.C
	waiting := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.notify.Events:
			if !ok {
				return
			}
			if file, known := w.files[e.Name]; known && !e.Has(fsnotify.Chmod) {
				waiting[file] = true
				timer.Reset(settle)
			}
		case _, ok := <-w.notify.Errors: // an overflow of the kernel's queue: look at everything
			if !ok {
				return
			}
			for _, file := range w.files {
				waiting[file] = true
			}
			timer.Reset(settle)
		case <-timer.C:
			for file := range waiting {
				changed(file)
			}
			clear(waiting)
		}
	}
}
