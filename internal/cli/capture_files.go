package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/capture"
	"tidegate/internal/config"
)

// rotationFlags divide a capture into files.
func rotationFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "rotate-size", DefaultText: "one file",
			Usage: "begin another file, FILE_NUMBER_TIME, before one has more than `SIZE`"},
		durationFlag(cli.GenericFlag{Name: "rotate-every", DefaultText: "one file",
			Usage: "begin another file, FILE_NUMBER_TIME, after `TIME`"}, 0),
		&cli.IntFlag{Name: "keep", Usage: "keep only the last `N` files of a rotation", DefaultText: "all"},
	}
}

// captureFiles are the files of a capture, one after the other.
type captureFiles struct {
	io.WriteCloser // the present one
	c              *cli.Context
	rotated        bool
	begun          int
	names          []string // the kept ones, the present one last
}

// createCapture creates the first file, and adds the rotation of the flags to the limits.
func createCapture(c *cli.Context, limits *capture.Limits) (*captureFiles, error) {
	f := &captureFiles{c: c, rotated: limits.Rotation.Bytes > 0 || limits.Rotation.Every > 0}
	if f.rotated {
		limits.Rotation.Next = f.next
	}
	_, err := f.next(time.Now())
	return f, err
}

// rotationOf checks the flags.
func rotationOf(c *cli.Context) (r capture.Rotation, err error) {
	var size config.Size
	text := c.String("rotate-size")
	r.Every = durationOf(c, "rotate-every")
	switch any := c.IsSet("rotate-size") || c.IsSet("rotate-every"); {
	case c.IsSet("rotate-size") && (size.UnmarshalText([]byte(text)) != nil || size == 0):
		return r, fmt.Errorf("--rotate-size %q: want bytes with a unit, for example \"64MiB\"", text)
	case c.IsSet("rotate-every") && r.Every <= 0:
		return r, fmt.Errorf("--rotate-every %v: want more than 0s", r.Every)
	case c.IsSet("keep") && (c.Int("keep") < 1 || !any):
		return r, errors.New("--keep: want at least 1, with --rotate-size or --rotate-every")
	case any && c.String("output") == "-":
		return r, errors.New("-o -: want a file for a rotation")
	}
	r.Bytes = int64(size)
	return r, nil
}

// next begins a file, and removes the oldest one beyond --keep.
func (f *captureFiles) next(at time.Time) (io.Writer, error) {
	name := f.c.String("output")
	if f.rotated {
		f.begun++
		end := filepath.Ext(name)
		name = fmt.Sprintf("%s_%05d_%s%s", strings.TrimSuffix(name, end), f.begun, at.Format("20060102150405"), end)
	}
	err := mayCreate(f.c, name)
	if err != nil {
		return nil, err
	}
	file, err := openCapture(f.c, name)
	if err != nil {
		return nil, err
	}
	if f.WriteCloser != nil {
		err = f.Close()
	}
	f.WriteCloser, f.names = file, append(f.names, name)
	if keep := f.c.Int("keep"); keep > 0 && len(f.names) > keep {
		err = errors.Join(err, os.Remove(f.names[0]))
		f.names = f.names[1:]
	}
	return file, err
}

// mayCreate refuses the path of a regular file without --force.
func mayCreate(c *cli.Context, path string) error {
	if old, err := os.Stat(path); err != nil || !old.Mode().IsRegular() || c.Bool("force") {
		return nil
	}
	return misuse(fmt.Errorf("%s exists: choose another file, or replace it with --force", path))
}

// openCapture creates a file. Only its owner may read the clients' messages, also if the file existed before.
func openCapture(c *cli.Context, path string) (io.WriteCloser, error) {
	if path == "-" {
		return unclosed{rawOutput(c)}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() { // not of /dev/null or a pipe
		err = errors.Join(file.Chmod(0o600), file.Truncate(0))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unclosed is a Writer that its owner closes.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }
