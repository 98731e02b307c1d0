package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profile keeps where a subject's process spends its time while it is played with, for go tool pprof: in a file of its
// name in the folder of the options, if they have one.
func (s *subject) profile(o *Options) error {
	if o.Profiles == "" || !s.admin.IsValid() {
		return nil
	}
	if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
		return err
	}
	const seconds = 3
	done := make(chan error, 1)
	go func() {
		done <- download(fmt.Sprintf("http://%v/debug/pprof/profile?seconds=%d", s.admin, seconds),
			filepath.Join(o.Profiles, s.Name+".pb.gz"))
	}()
	if err := s.play(o, seconds*time.Second); err != nil {
		return err
	}
	return <-done
}

func download(url, file string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, answer.Body)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
