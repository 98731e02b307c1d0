package admin

import "net/http"

// Configuration is the configuration in force.
type Configuration struct {
	TOML string `json:"toml"` // a whole file, with every default and without secrets
}

func (s *Server) config(*http.Request) (Configuration, error) {
	return Configuration{s.Config()}, nil
}
