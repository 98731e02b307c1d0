package admin

import "net/http"

// drain answers before the end: the proxy's goodbyes take their time.
func (s *Server) drain(*http.Request, nothing) (nothing, error) {
	s.Log.Info().Msg("an operator ends the proxy")
	s.Drain()
	return nothing{}, nil
}
