// Package filewatch reports when files are changed, replaced, created or removed: the configuration, ban lists, prefix
// lists. It does not read them.
package filewatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is the time without changes after which a change is reported. Editors and copies write in several steps.
const settle = 200 * time.Millisecond

// Watcher watches a set of files.
type Watcher struct {
	notify *fsnotify.Watcher
	files  map[string]string   // absolute path, by name as given to New
	trails map[string][]string // what trail returned last, by name as given to New
}

// New watches files. A file need not exist, but its folder must. New watches the folders, since most editors replace a
// file. It watches the folders of links on the way to a file too, if it may read them: Kubernetes and certbot replace
// such links.
func New(files ...string) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{notify: notify, files: make(map[string]string), trails: make(map[string][]string)}
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err == nil {
			w.files[file] = path
			folder := trail(filepath.Dir(path))
			err = notify.Add(folder[len(folder)-1])
		}
		if err != nil {
			_ = notify.Close() // the earlier error matters more
			return nil, fmt.Errorf("watch %s: %w", file, err)
		}
	}
	w.renew(make(map[string]bool))
	return w, nil
}

// renew watches the folders on the trails of all files, and no others. It adds files whose trails are new to moved.
func (w *Watcher) renew(moved map[string]bool) (found bool) {
	folders := make(map[string]bool)
	for file, path := range w.files {
		names := trail(path)
		if !slices.Equal(names, w.trails[file]) {
			w.trails[file], moved[file], found = names, true, true
		}
		for _, name := range names {
			folders[filepath.Dir(name)] = true
		}
	}
	for folder := range folders {
		_ = w.notify.Add(folder) // also if watched: it may be a new one of the same name
	}
	for _, folder := range w.notify.WatchList() {
		if !folders[folder] {
			_ = w.notify.Remove(folder) // fails if the folder has just gone
		}
	}
	return found
}

// trail returns each link on the way to an absolute path, and then the file, or the first name that does not exist. No
// folder of these names is a link.
func trail(path string) (names []string) {
	const separator, maxLinks = string(filepath.Separator), 40 // as on Linux
	volume := filepath.VolumeName(path)
	for at, rest := volume+separator, path[len(volume):]; len(names) < maxLinks; {
		name, after, more := strings.Cut(rest, separator)
		name = filepath.Join(at, name)
		if target, err := os.Readlink(name); err == nil {
			volume = filepath.VolumeName(target)
			if filepath.IsAbs(target) {
				at = volume + separator
			}
			names, rest = append(names, name), target[len(volume):]+separator+after
			continue
		}
		if _, err := os.Lstat(name); err != nil || !more {
			return append(names, name)
		}
		at, rest = name, after
	}
	return names
}

// Run calls changed with a file's name, as given to New, once the file has not changed for 200 ms. Calls do not
// overlap. Run closes the Watcher and returns when ctx is done.
func (w *Watcher) Run(ctx context.Context, changed func(file string)) {
	defer func() { _ = w.notify.Close() }()
	timer := time.NewTimer(0) // links may have changed since New
	waiting := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.notify.Events:
			if !ok {
				return
			}
			concerns := func(name string) bool { return e.Name == name || e.Name == filepath.Dir(name) }
			for file, names := range w.trails {
				if !e.Has(fsnotify.Chmod) && slices.ContainsFunc(names, concerns) {
					waiting[file] = true
					timer.Reset(settle)
				}
			}
		case _, ok := <-w.notify.Errors: // the kernel's queue overflowed: check every file
			if !ok {
				return
			}
			for file := range w.files {
				waiting[file] = true
			}
			timer.Reset(settle)
		case <-timer.C:
			if w.renew(waiting) {
				timer.Reset(settle) // what changed before the new watches was not told
				continue
			}
			for file := range waiting {
				changed(file)
			}
			clear(waiting)
		}
	}
}
