package admin

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"tidegate/session"
)

// Record is the whole state of a session, without secrets and payloads.
type Record struct {
	Session Session        `json:"session"`
	State   map[string]any `json:"state"` // names and values may change with every release
}

// Travel is a session that has left a proxy, with its secrets. Another proxy takes it in.
type Travel struct {
	Record string `json:"record"` // in base64
}

func (s *Server) recordSession(r *http.Request) (Record, error) {
	shown, err := s.showSession(r)
	if err != nil {
		return Record{}, err
	}
	id, err := session.ParseID(shown.ID)
	if err != nil {
		return Record{}, err
	}
	state, err := s.Proxy.Record(r.Context(), id)
	if err != nil {
		return Record{}, fmt.Errorf("session %s: %w", id, err)
	}
	return Record{Session: shown, State: state}, nil
}

func (s *Server) takeOutSession(r *http.Request, _ nothing) (Travel, error) {
	id, err := session.ParseID(r.PathValue("id"))
	if err != nil {
		return Travel{}, badRequest{err}
	}
	b, err := s.Proxy.TakeOut(r.Context(), id)
	if err != nil {
		return Travel{}, fmt.Errorf("session %s: %w", id, err)
	}
	s.Log.Info().Stringer("session", id).Int("bytes", len(b)).Msg("session taken out by an operator")
	return Travel{base64.StdEncoding.EncodeToString(b)}, nil
}

func (s *Server) putInSession(r *http.Request, in Travel) (nothing, error) {
	b, err := base64.StdEncoding.DecodeString(in.Record)
	if err != nil {
		return nothing{}, badRequest{fmt.Errorf("record: %w", err)}
	}
	if err := s.Proxy.PutIn(r.Context(), b); err != nil {
		return nothing{}, err
	}
	s.Log.Info().Int("bytes", len(b)).Msg("session put in by an operator; it waits for its client")
	return nothing{}, nil
}
