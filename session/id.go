package session

import (
	"fmt"
	"strconv"
)

// ID names a session. No other session of the process ever gets the same ID. It is written in base 36, so that
// it stays short.
type ID uint64

// ParseID parses the form that String writes.
func ParseID(text string) (ID, error) {
	id, err := strconv.ParseUint(text, 36, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("session %q: want an ID as %q shows it", text, "sessions list")
	}
	return ID(id), nil
}

// String returns the ID in base 36, as logs and commands show it.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 36) }

// Shard returns the index of the session's Relay among all Relays.
func (id ID) Shard(shards int) int { return int(uint64(id) % uint64(shards)) }
