package admin

import (
	"net/http"
	"runtime"
	"time"
)

// Version is what runs.
type Version struct {
	Version string    `json:"version"`
	Go      string    `json:"go"`
	System  string    `json:"system"` // operating system and processor, "linux/amd64"
	Started time.Time `json:"started"`
}

func (s *Server) version(*http.Request) (Version, error) {
	return Version{s.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, s.started.UTC()}, nil
}
