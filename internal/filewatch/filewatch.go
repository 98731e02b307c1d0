// Package filewatch reports when files are changed, replaced, created or removed: the configuration, ban lists, prefix
// lists. It does not read them.
package filewatch

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is the time without changes after which a change is reported. Editors and copies write in several steps.
const settle = 200 * time.Millisecond

// Watcher watches a set of files.
type Watcher struct {
	notify *fsnotify.Watcher
	files  map[string]string // name as given to New, by absolute path
}

// New watches files. A file need not exist, but its folder must. New watches the folders, since most editors replace a
// file, and since a file may be a link whose target changes.
func New(files ...string) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{notify: notify, files: make(map[string]string)}
	for _, file := range files {
		if err := w.add(file); err != nil {
			_ = notify.Close() // the earlier error matters more
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

// Run calls changed with a file's name, as given to New, once the file has not changed for 200 ms. Calls do not
// overlap. Run closes the Watcher and returns when ctx is done.
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
		case _, ok := <-w.notify.Errors: // the kernel's queue overflowed: check every file
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
