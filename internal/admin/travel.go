package admin

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"tidegate/proxy/relay"
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
	q := new(relay.RecordSession)
	err = s.askAbout(r, &q.ID, q)
	return Record{Session: shown, State: q.State}, err
}

func (s *Server) takeOutSession(r *http.Request, _ nothing) (Travel, error) {
	q := new(relay.TakeOutSession)
	if err := s.askAbout(r, &q.ID, q); err != nil {
		return Travel{}, err
	}
	s.Log.Info().Stringer("session", q.ID).Int("bytes", len(q.Record)).Msg("session taken out by an operator")
	return Travel{base64.StdEncoding.EncodeToString(q.Record)}, nil
}

func (s *Server) putInSession(r *http.Request, in Travel) (nothing, error) {
	b, err := base64.StdEncoding.DecodeString(in.Record)
	if err != nil {
		return nothing{}, badRequest{fmt.Errorf("record: %w", err)}
	}
	if err := s.Proxy.Ask(r.Context(), &relay.PutInSession{Record: b}); err != nil {
		return nothing{}, err
	}
	s.Log.Info().Int("bytes", len(b)).Msg("session put in by an operator; it waits for its client")
	return nothing{}, nil
}
