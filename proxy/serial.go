package proxy

import (
	"fmt"
	"strconv"
)

// SessionID names a session for as long as the process lives: no other session is ever given it. It is written in base
// 36, so that it stays short.
type SessionID uint64

// ParseSessionID reads what String writes.
func ParseSessionID(text string) (SessionID, error) {
	id, err := strconv.ParseUint(text, 36, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("session %q: want an ID as %q shows it", text, "sessions list")
	}
	return SessionID(id), nil
}

// String is the ID in base 36, as logs and commands name the session.
func (id SessionID) String() string { return strconv.FormatUint(uint64(id), 36) }

// shard is which of so many Relays the session is at.
func (id SessionID) shard(shards int) int { return int(uint64(id) % uint64(shards)) }

// serials are the IDs that a Relay gives to its sessions. IDs of one Relay rise.
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
