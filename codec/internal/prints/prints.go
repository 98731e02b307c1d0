// Package prints tells repeated messages from forged ones. A codec drops a message if its number came before. A forger
// who guesses a number would so have the peer's message dropped. Therefore the content of numbered messages is
// remembered.
package prints

import (
	"cmp"
	"encoding/binary"
	mathbits "math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
	"tidegate/codec/internal/saved"
)

const (
	// Most is the largest number of newest messages that are remembered. Those older than span may be forgotten sooner:
	// no peer sends a message again so late, and slow games need little memory.
	Most = 1024
	span = 5 * time.Second
	// least is the number of messages that are remembered however old they are. With fewer, the turns would not tell all
	// numbers apart that codecs ask for.
	least = 64

	first = 16
	// mostRivals is how many further messages are remembered that came under a number which another had used.
	mostRivals = 256

	// A print is bits of the content's hash. Above them is the turn of the number, so that an old print is noticed.
	bits  = 27
	turns = 1 << (32 - bits)
)

// Prints remember the newest numbered messages. A second message under a known number with other content is no
// repetition: one of the two is forged, and nothing tells which. The codec then delivers both. Memory grows with the
// number of messages in span, to 4 KiB, and beyond that with the distance to the message that is furthest ahead.
type Prints struct {
	Wrap   int32    // one more than the highest number, a power of two; zero means 2^24
	taken  uint16   // newest messages that are remembered for certain, up to Most
	lap    uint16   // messages since marks[0]
	key    uint64   // of the hash; zero means the process's own
	list   []uint32 // by number; 0: none
	rivals *[]rival // nil: none
	// marks are the times in ms, newest first, at which a quarter of the list's length had come once more. 0: not set.
	marks [4]uint32
}

// rival is a message under a number that another had used.
type rival struct {
	_      struct{} `cbor:",toarray"`
	Number int
	Print  uint32
}

// ownKey is the process's key of the hash. Saved prints carry the key that made them.
var ownKey = rand.Uint64() | 1

// Of returns the print of a message. extra is what distinguishes it beside its bytes.
func (p *Prints) Of(message []byte, extra uint64) uint32 {
	h := xxh3.HashSeed(message, p.usedKey()) ^ extra*0x9e3779b97f4a7c15
	return uint32(h^h>>32)&(1<<bits-1) | 1
}

func (p *Prints) usedKey() uint64 {
	if p.key != 0 {
		return p.key
	}
	return ownKey
}

// Differs reports whether messages have come under a number, and all had other content.
func (p *Prints) Differs(number int, print uint32) bool {
	if !p.knows(number) || *p.slot(number) == print|p.turn(number) {
		return false // of a forgotten number: a rival says nothing about what the other one was
	}
	return !slices.ContainsFunc(p.others(), func(r rival) bool { return r.Number == number && r.Print == print })
}

// Missed reports whether nothing has come under a number that is behind the oldest missing one by less than the number
// of messages so far. A codec that gives up missing numbers so tells a late message from a repeated one.
func (p *Prints) Missed(number, behind int) bool {
	return behind < int(p.taken) && !p.knows(number)
}

// Add remembers a message. ahead is its distance from the oldest number that is missing.
func (p *Prints) Add(now time.Duration, number int, print uint32, ahead int) {
	needed := int(p.taken) + max(ahead, 0)
	if isYoung := p.mark(now) < span; p.taken < Most && (isYoung || needed < max(len(p.list), least)) {
		p.taken++
		needed++
	}
	for len(p.list) < needed {
		p.grow(number - ahead)
	}
	if !p.knows(number) {
		*p.slot(number) = print | p.turn(number)
		return
	}
	if p.rivals == nil {
		p.rivals = new([]rival)
	}
	if len(*p.rivals) == mostRivals {
		p.forgetFarthest(number - ahead)
	}
	*p.rivals = append(*p.rivals, rival{Number: number, Print: print})
}

func (p *Prints) others() []rival {
	if p.rivals == nil {
		return nil
	}
	return *p.rivals
}

// forgetFarthest makes room for a rival. A peer repeats messages near the oldest number that is missing. Those of a
// blind forger lie anywhere, and a thousand a second would push out the peer's own. They may also keep that number far
// from the peer's, so the newer half stays.
func (p *Prints) forgetFarthest(near int) {
	distance := func(r rival) int { return min((r.Number-near)&(p.wrap()-1), (near-r.Number)&(p.wrap()-1)) }
	farthest := slices.MaxFunc((*p.rivals)[:mostRivals/2], func(a, b rival) int { return distance(a) - distance(b) })
	at := slices.Index(*p.rivals, farthest)
	*p.rivals = slices.Delete(*p.rivals, at, at+1)
}

// mark notes a message. It returns an age that the message which is forgotten next exceeds.
func (p *Prints) mark(now time.Duration) time.Duration {
	at := max(uint32(now.Milliseconds()), 1)
	if p.marks[3] == 0 {
		p.marks = [4]uint32{at, at, at, at}
	}
	if p.lap++; int(p.lap) >= len(p.list)/4 {
		p.marks, p.lap = [4]uint32{at, p.marks[0], p.marks[1], p.marks[2]}, 0
	}
	return time.Duration(at-p.marks[3]) * time.Millisecond
}

// wrap returns one more than the highest number.
func (p *Prints) wrap() int { return int(cmp.Or(p.Wrap, 1<<24)) }

// slot returns the place of a number. The length of the list is a power of two, so no slow division is needed.
func (p *Prints) slot(number int) *uint32 { return &p.list[number&(len(p.list)-1)] }

// turn says how often lower numbers fill the whole list, in the bits above a print.
func (p *Prints) turn(number int) uint32 {
	return uint32(number>>mathbits.TrailingZeros(uint(len(p.list)))) % turns << bits
}

// knows reports whether the list has a print of a number.
func (p *Prints) knows(number int) bool {
	if len(p.list) == 0 {
		return false
	}
	known := *p.slot(number)
	return known != 0 && known&^(1<<bits-1) == p.turn(number)
}

// grow makes room for twice as many. near is a number close to the others.
func (p *Prints) grow(near int) {
	old := p.list
	p.list = make([]uint32, max(first, 2*len(old)))
	cycle := turns * len(old) // a power of two
	for i, known := range old {
		if known == 0 {
			continue
		}
		at := int(known>>bits)*len(old) + i // the number, modulo cycle
		number := (near + (at-near+cycle/2)&(cycle-1) - cycle/2) & (p.wrap() - 1)
		*p.slot(number) = known&(1<<bits-1) | p.turn(number)
	}
}

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
