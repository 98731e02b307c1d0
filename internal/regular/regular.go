// Package regular opens and replaces files that are read again and again: a configuration, lists, bans. They must be
// regular files. To open a named pipe waits for a writer, perhaps for ever, and a reload or the end of the process with
// it.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Open opens a regular file for reading, or refuses it at once.
func Open(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = check(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// ReadFile reads a regular file.
func ReadFile(path string) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(file)
}

// Replace replaces a file, or creates it. Readers see either the old text or the new one, also after a crash.
func Replace(path string, mode fs.FileMode, text []byte) error {
	fresh, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // only its owner can read it
	if err != nil {
		return err
	}
	_, err = fresh.Write(text)
	if err = errors.Join(err, fresh.Chmod(mode), fresh.Sync(), fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		_ = os.Remove(fresh.Name())
	}
	return err
}

// Check refuses a path that has something else than a regular file. It accepts a path without a file.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil // who opens it sees the error
	}
	return check(path, info)
}

func check(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s: want a regular file, not %s: it is read again at each change", path, kindOf(info.Mode()))
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
