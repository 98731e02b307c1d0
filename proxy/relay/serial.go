package relay

import (
	"fmt"
	"strconv"
)

// SessionID names a session. No other session of the process ever gets the same ID. It is written in base 36, so that
// it stays short.
type SessionID uint64

// ParseSessionID parses the form that String writes.
func ParseSessionID(text string) (SessionID, error) {
	id, err := strconv.ParseUint(text, 36, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("session %q: want an ID as %q shows it", text, "sessions list")
	}
	return SessionID(id), nil
}

// String returns the ID in base 36, as logs and commands show it.
func (id SessionID) String() string { return strconv.FormatUint(uint64(id), 36) }

// Shard returns the index of the session's Relay among all Relays.
func (id SessionID) Shard(shards int) int { return int(uint64(id) % uint64(shards)) }

// serials makes the IDs of one Relay's sessions. Each ID is higher than the one before.
type serials struct {
	last, step SessionID
}

func newSerials(shard, shards int) serials {
	return serials{last: SessionID(shard), step: SessionID(shards)}
}

func (s *serials) next() SessionID {
	s.last += s.step
	return s.last
}

// has reports whether an ID is one of this Relay's, given or not.
func (s *serials) has(id SessionID) bool { return id%s.step == s.last%s.step }
