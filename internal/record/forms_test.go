package record

import (
	"bytes"
	"math"
	"net/netip"
	"testing"
	"time"
)

type piece struct {
	_     struct{} `cbor:",toarray"`
	Small uint8
	Wide  int64
	Bytes []byte
}

type inner struct {
	Count int  `cbor:"1,keyasint,omitempty"`
	Set   bool `cbor:"2,keyasint,omitempty"`
}

type kept struct {
	Count int `cbor:"1,keyasint"`
}

// every has a field of each form that records have.
type every struct {
	Head
	Bool     bool              `cbor:"3,keyasint,omitempty"`
	Uint8    uint8             `cbor:"4,keyasint,omitempty"`
	Uint64   uint64            `cbor:"5,keyasint"`
	Int      int               `cbor:"6,keyasint,omitempty"`
	Duration time.Duration     `cbor:"7,keyasint"`
	Float    float64           `cbor:"8,keyasint,omitempty"`
	Text     string            `cbor:"9,keyasint"`
	Bytes    []byte            `cbor:"10,keyasint"`
	Address  netip.AddrPort    `cbor:"11,keyasint"`
	IP       netip.Addr        `cbor:"12,keyasint,omitempty"`
	Other    netip.AddrPort    `cbor:"24,keyasint,omitempty"`
	Zeros    [2]uint64         `cbor:"25,keyasint,omitempty"`
	Networks []netip.Prefix    `cbor:"13,keyasint"`
	Pointer  *inner            `cbor:"14,keyasint,omitempty"`
	Inner    inner             `cbor:"15,keyasint,omitempty"`
	Kept     kept              `cbor:"16,keyasint,omitempty"`
	Parts    []piece           `cbor:"17,keyasint"`
	Numbers  []int             `cbor:"18,keyasint,omitempty"`
	Lists    [][]byte          `cbor:"19,keyasint,omitempty"`
	Counts   map[string]uint64 `cbor:"20,keyasint,omitempty"`
	Key      [4]byte           `cbor:"21,keyasint"`
	Words    [3]uint16         `cbor:"22,keyasint"`
	Null     *inner            `cbor:"23,keyasint"`
	Int8     int8              `cbor:"63,keyasint,omitempty"`
}

// values returns different values of every.
func values() []*every {
	many := bytes.Repeat([]byte{7}, 70_000)
	return []*every{
		{},
		{Bytes: []byte{}, Parts: []piece{}, Counts: map[string]uint64{}},
		{
			Head: Head{"kind", 1}, Bool: true, Uint8: 255, Uint64: math.MaxUint64, Int: -1, Duration: math.MinInt64, Float: 1.5,
			Text: "t\xff", Bytes: many, Address: netip.MustParseAddrPort("[2001:db8::1]:7"), IP: netip.MustParseAddr("10.0.0.1"),
			Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Pointer: new(inner), Inner: inner{Set: true},
			Parts:   []piece{{Small: 1, Wide: -500, Bytes: many[:30]}, {}},
			Numbers: []int{0, 23, 24, 255, 256, 65535, 65536, 1 << 40, -24, -25},
			Lists:   [][]byte{nil, {}, many[:256]}, Counts: map[string]uint64{"a": 1, "b": 2}, Key: [4]byte{1, 2, 3, 4},
			Words: [3]uint16{1, 2, 3}, Null: &inner{Count: 5}, Int8: -128,
		},
		{Address: netip.MustParseAddrPort("[fe80::1%a-zone-with-a-long-name]:7"), Kept: kept{1}, Int: math.MaxInt64},
	}
}

// TestEveryForm reads what was written, and no part of it. An empty list may come back as none.
func TestEveryForm(t *testing.T) {
	for i, v := range values() {
		b := Append(nil, v)
		var got every
		err := Read(b, &got)
		if again := Append(nil, &got); err != nil || len(v.Counts) < 2 && !bytes.Equal(again, b) {
			t.Errorf("value %d is read as %+v, %v", i, got, err)
		}
		for n := range min(len(b), 300) {
			if Read(b[:n], new(every)) == nil {
				t.Errorf("value %d: %d of its %d bytes are a record", i, n, len(b))
			}
		}
	}
}

// TestUnknownFields skips fields of all forms that this release does not know.
func TestUnknownFields(t *testing.T) {
	for i, v := range values() {
		v.Head = Head{"kind", 1}
		var known older
		if err := Read(Append(nil, v), &known); (err == nil) == v.Bool { // field 3 is a text there
			t.Errorf("value %d: %v", i, err)
		}
		var head struct{ Head }
		if err := Read(Append(nil, v), &head); err != nil || head.Head != v.Head {
			t.Errorf("value %d: %+v, %v", i, head, err)
		}
	}
}
