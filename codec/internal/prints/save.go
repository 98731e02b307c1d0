package prints

import (
	"encoding/binary"

	"tidegate/codec/internal/saved"
)

// mostPlaces bounds the list of saved prints: every number from the oldest missing one to the furthest.
const mostPlaces = 1 << 16

// Saved are Prints in a record. The list is joined, four bytes for each print.
type Saved struct {
	Key    uint64  `cbor:"1,keyasint,omitempty" secret:"true"`
	List   []byte  `cbor:"2,keyasint,omitempty"`
	Taken  int     `cbor:"3,keyasint,omitempty"`
	Rivals []rival `cbor:"4,keyasint,omitempty"`
}

// Save returns the prints as part of a record.
func (p *Prints) Save() Saved {
	v := Saved{Taken: int(p.taken), List: make([]byte, 0, 4*len(p.list)), Rivals: p.others()}
	if len(p.list) > 0 {
		v.Key = p.usedKey()
	}
	for _, print := range p.list {
		v.List = binary.LittleEndian.AppendUint32(v.List, print)
	}
	return v
}

// Restore returns saved prints. wrap is one more than the highest number.
func (v *Saved) Restore(wrap int) (Prints, error) {
	places := len(v.List) / 4
	switch {
	case len(v.List)%4 != 0 || places > mostPlaces || places&(places-1) != 0 || places > 0 && places < first:
		return Prints{}, saved.Fault("length of the list of prints", len(v.List))
	case v.Taken < 0 || v.Taken > min(Most, places):
		return Prints{}, saved.Fault("number of prints", v.Taken)
	case len(v.Rivals) > mostRivals:
		return Prints{}, saved.Fault("number of rivals", len(v.Rivals))
	}
	p := Prints{Wrap: int32(wrap), key: v.Key, taken: uint16(v.Taken), list: make([]uint32, 0, places)}
	if len(v.Rivals) > 0 {
		all := v.Rivals
		p.rivals = &all
	}
	for i := range places {
		p.list = append(p.list, binary.LittleEndian.Uint32(v.List[4*i:]))
	}
	for _, r := range v.Rivals {
		if r.Number < 0 || r.Number >= wrap {
			return Prints{}, saved.Fault("number of a rival", r.Number)
		}
	}
	return p, nil
}
