package decode

import (
	"fmt"
	"io"
	"os"
)

// maxStream bounds what Stream puts into a temporary file, in bytes.
const maxStream = 1 << 30

// Stream explains a capture that can be read only once, as File does, by way of a temporary file of at most 1 GiB.
func Stream(in io.Reader, out io.Writer, o Options) error {
	return spool(in, maxStream, func(capture io.ReadSeeker) error { return explainTwice(capture, out, o) })
}

// spool gives use a temporary copy of in, which may be of at most limit bytes.
func spool(in io.Reader, limit int64, use func(io.ReadSeeker) error) error {
	file, err := os.CreateTemp("", "tidegate-decode-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	size, err := io.Copy(file, io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return err
	case size > limit:
		return fmt.Errorf("longer than %d bytes", limit)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return use(file)
}
