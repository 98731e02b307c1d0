package relay

import (
	"errors"

	sessions "tidegate/session"
)

// serials makes the IDs of one Relay's sessions. Each ID is higher than the one before.
type serials struct {
	last, step sessions.ID
}

func newSerials(shard, shards int) serials {
	return serials{last: sessions.ID(shard), step: sessions.ID(shards)}
}

func (s *serials) next() sessions.ID {
	s.last += s.step
	return s.last
}

// has reports whether an ID is one of this Relay's, given or not.
func (s *serials) has(id sessions.ID) bool { return id%s.step == s.last%s.step }

// Errors of an operator's requests to a Server.
var (
	ErrNoSession = errors.New("no such session") // the session has ended, or never existed
	ErrEnding    = errors.New("the session is ending already")
)
