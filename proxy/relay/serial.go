package relay

import (
	"errors"
	"fmt"

	"tidegate/session"
)

// serials makes the IDs of one Relay's sessions. Each ID is higher than the one before.
type serials struct {
	last, step session.ID
}

func newSerials(shard, shards int) serials {
	return serials{last: session.ID(shard), step: session.ID(shards)}
}

func (s *serials) next() session.ID {
	s.last += s.step
	return s.last
}

// has reports whether an ID is one of this Relay's, given or not.
func (s *serials) has(id session.ID) bool { return id%s.step == s.last%s.step }

// Errors of an operator's requests to a Server.
var (
	ErrNoSession = errors.New("no such session") // the session has ended, or never existed
	ErrEnding    = errors.New("the session is ending already")
)

// errRecord is wrapped by errors about a readable record that does not fit this proxy.
var errRecord = errors.New("unusable record of a session")

func unusable(what string, value any) error {
	return fmt.Errorf("%w: %s is %v", errRecord, what, value)
}
