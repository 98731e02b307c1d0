package fleet

import (
	"encoding/binary"
	"errors"
	"slices"

	"tidegate/internal/stray"
)

// Bounds of a message with players.
const (
	setForm    = 1       // the version
	maxSetKeys = 1 << 15 // players in a message: 256 KiB
	maxSets    = 1 << 6  // messages of a node's whole set
)

var errSet = errors.New("a list of players that no node sends")

// playerSet is what a node tells all others about its players: what has changed, or a part of the whole set.
type playerSet struct {
	instance       string // of the node's process
	number         uint64 // of the message; they have no gap
	begins, ends   bool   // a whole set
	opened, closed []stray.Key
}

// Flags of a message with players.
const (
	setBegins = 1 << iota
	setEnds
	setKnown = 1<<iota - 1
)

// format returns the message as other nodes read it. Its caller keeps the bounds.
func (m *playerSet) format() []byte {
	b := make([]byte, 0, 16+len(m.instance)+8*(len(m.opened)+len(m.closed)))
	flags := byte(0)
	if m.begins {
		flags |= setBegins
	}
	if m.ends {
		flags |= setEnds
	}
	b = append(b, setForm, flags, byte(len(m.instance)))
	b = append(b, m.instance...)
	b = binary.BigEndian.AppendUint64(b, m.number)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.opened)))
	for _, key := range m.opened {
		b = binary.BigEndian.AppendUint64(b, uint64(key))
	}
	for _, key := range m.closed {
		b = binary.BigEndian.AppendUint64(b, uint64(key))
	}
	return b
}

// parsePlayerSet reads a message. Its sender may be hostile: all parts are checked and bounded.
func parsePlayerSet(b []byte) (*playerSet, error) {
	const fixed = 3 + 8 + 4
	if len(b) < fixed || b[0] != setForm || b[1] > setKnown || len(b) < fixed+int(b[2]) {
		return nil, errSet
	}
	name := 3 + int(b[2]) // its end; as a byte it could wrap around
	m := &playerSet{begins: b[1]&setBegins != 0, ends: b[1]&setEnds != 0, instance: string(b[3:name])}
	rest := b[name:]
	m.number = binary.BigEndian.Uint64(rest)
	opened, keys := int(binary.BigEndian.Uint32(rest[8:])), rest[12:]
	if !isWord(m.instance) || m.number == 0 || len(keys)%8 != 0 || len(keys)/8 > maxSetKeys || opened > len(keys)/8 {
		return nil, errSet
	}
	all := make([]stray.Key, len(keys)/8)
	for i := range all {
		all[i] = stray.Key(binary.BigEndian.Uint64(keys[8*i:]))
	}
	m.opened, m.closed = all[:opened], all[opened:]
	return m, nil
}

// playerSets returns the messages for a node's changes, or for its whole set. beyond counts those without room.
func playerSets(opened, closed []stray.Key, whole bool) (all []*playerSet, beyond int) {
	if most := maxSets * maxSetKeys; len(opened) > most {
		opened, beyond = opened[:most], len(opened)-most
	}
	for part := range slices.Chunk(opened, maxSetKeys) {
		all = append(all, &playerSet{opened: part})
	}
	for part := range slices.Chunk(closed, maxSetKeys) {
		all = append(all, &playerSet{closed: part})
	}
	if len(all) == 0 {
		all = append(all, new(playerSet))
	}
	all[0].begins, all[len(all)-1].ends = whole, whole
	return all, beyond
}
