// Package rtypegame is the real R-Type game's server and client without graphics, re-created from their sources for
// tests. They send and understand the same datagrams, with the same faults. The package shares nothing with the codec.
package rtypegame

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Stage is which of the game's published versions a peer is of.
type Stage uint8

// Stages.
const (
	Early Stage = iota // October 2024: entities of 2 bytes, indexes of 1
	Late               // 2 November 2024: entities of 4 bytes, indexes of 2
	Final              // 3 November 2024, the last one: the lobby, little-endian IDs
)

// Opcodes.
const (
	create, remove, attach, update, detach = 0, 1, 2, 3, 4

	named, counted = 5, 6
	nextFrame      = 10
)

// Goodbye is what the server says to a client that it drops.
const Goodbye = "You have been disconnected :("

// World is what there is: the data of components by their names, by entity.
type World map[uint32]map[string][]byte

// Clone copies the world.
func (w World) Clone() World {
	copied := make(World, len(w))
	for e, components := range w {
		copied[e] = maps.Clone(components)
	}
	return copied
}

// Difference is how the world of a client differs from that of its server.
type Difference struct {
	Missing    int // entities
	Ghosts     int // entities that are not there any more
	Components int // that are missing, of entities that are there
	Values     int // components with other data
}

// Sum is all of it.
func (d Difference) Sum() int { return d.Missing + d.Ghosts + d.Components + d.Values }

// Add adds another difference.
func (d *Difference) Add(o Difference) {
	d.Missing += o.Missing
	d.Ghosts += o.Ghosts
	d.Components += o.Components
	d.Values += o.Values
}

// Compare compares a server's world with a client's, which has no use for some components.
func Compare(server, client World, ignored ...string) (d Difference) {
	for e, components := range server {
		have, ok := client[e]
		if !ok {
			d.Missing++
			continue
		}
		for name, data := range components {
			switch got, ok := have[name]; {
			case slices.Contains(ignored, name):
			case !ok:
				d.Components++
			case string(got) != string(data):
				d.Values++
			}
		}
	}
	for e := range client {
		if _, ok := server[e]; !ok {
			d.Ghosts++
		}
	}
	return d
}

// appendEntity appends an entity as the stage writes it.
func (s Stage) appendEntity(b []byte, e uint32) []byte {
	switch s {
	case Early:
		return binary.BigEndian.AppendUint16(b, uint16(e))
	case Late:
		return binary.BigEndian.AppendUint32(b, e)
	}
	return binary.LittleEndian.AppendUint32(b, e)
}

func (s Stage) appendComponent(b []byte, c uint16) []byte {
	if s == Final {
		return binary.LittleEndian.AppendUint16(b, c)
	}
	return binary.BigEndian.AppendUint16(b, c)
}

// takeEntity reads an entity, and returns what follows it.
func (s Stage) takeEntity(b []byte) (e uint32, rest []byte, ok bool) {
	switch {
	case s == Early && len(b) >= 2:
		return uint32(binary.BigEndian.Uint16(b)), b[2:], true
	case s == Late && len(b) >= 4:
		return binary.BigEndian.Uint32(b), b[4:], true
	case s == Final && len(b) >= 4:
		return binary.LittleEndian.Uint32(b), b[4:], true
	}
	return 0, nil, false
}

func (s Stage) takeComponent(b []byte) (c uint16, rest []byte, ok bool) {
	switch {
	case len(b) < 2:
		return 0, nil, false
	case s == Final:
		return binary.LittleEndian.Uint16(b), b[2:], true
	}
	return binary.BigEndian.Uint16(b), b[2:], true
}
