package admin

import (
	"net/http"
	"runtime"
	"time"
)

// Version describes the running program.
type Version struct {
	Version string    `json:"version"`
	Go      string    `json:"go"`
	System  string    `json:"system"` // operating system and processor, "linux/amd64"
	Started time.Time `json:"started"`
}

func (s *Server) version(*http.Request) (Version, error) {
	return Version{s.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, s.started.UTC()}, nil
}

// Configuration is the running configuration.
type Configuration struct {
	TOML string `json:"toml"` // a whole file, with every default and without secrets
}

func (s *Server) config(*http.Request) (Configuration, error) {
	return Configuration{s.Config()}, nil
}

// drain answers at once: the goodbyes of the sessions take time.
func (s *Server) drain(*http.Request, nothing) (nothing, error) {
	s.Log.Info().Msg("proxy ended by an operator")
	s.Drain()
	return nothing{}, nil
}
