package record

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

// running is a struct of running code, and asSaved is the struct of plain values with the same record.
type running struct {
	Head
	options *int
	at      time.Time `cbor:"4,keyasint,omitempty"`
	Open    bool      `cbor:"3,keyasint,omitempty"`
	scratch []byte
	*outer
	near    window    `record:"inline"`
	far     window    `record:"inline+4"`
	inner   runInner  `cbor:"20,keyasint,omitempty"`
	pointer *runInner `cbor:"21,keyasint,omitempty"`
	list    []pair    `cbor:"22,keyasint,omitempty"`
	array   [2]pair   `cbor:"23,keyasint"`
	key     uint64    `cbor:"24,keyasint,omitempty" secret:"true"`
	kind    string    `cbor:"25,keyasint,omitempty"`
	small   uint16    `cbor:"26,keyasint,omitempty"`
	sized   *sized    `cbor:"27,keyasint,omitempty"`
}

// sized has no time, and fields that are not exported.
type sized struct {
	_ struct{} `cbor:",toarray"`
	words
	Room int
}

type words struct{ first, second uint8 }

type outer struct {
	until time.Time `cbor:"5,keyasint,omitempty"`
	other int
}

type window struct {
	newest uint16    `cbor:"11,keyasint"`
	seen   [2]uint64 `cbor:"12,keyasint,omitempty" record:"list"`
}

type runInner struct {
	heard time.Time `cbor:"1,keyasint,omitempty"`
	count int       `cbor:"2,keyasint,omitempty"`
}

type pair struct {
	_     struct{} `cbor:",toarray"`
	since time.Time
	free  *pair `cbor:"-"`
	n     uint8
}

type asSaved struct {
	Head
	Open    bool        `cbor:"3,keyasint,omitempty"`
	At      Moment      `cbor:"4,keyasint,omitempty"`
	Until   Moment      `cbor:"5,keyasint,omitempty"`
	Newest  uint16      `cbor:"11,keyasint"`
	Seen    []uint64    `cbor:"12,keyasint,omitempty"`
	Far     uint16      `cbor:"15,keyasint,omitempty"`
	FarSeen []uint64    `cbor:"16,keyasint,omitempty"`
	Inner   savedInner  `cbor:"20,keyasint,omitempty"`
	Pointer *savedInner `cbor:"21,keyasint,omitempty"`
	List    []savedPair `cbor:"22,keyasint,omitempty"`
	Array   []savedPair `cbor:"23,keyasint"`
	Key     uint64      `cbor:"24,keyasint,omitempty"`
	Kind    string      `cbor:"25,keyasint,omitempty"`
	Small   uint16      `cbor:"26,keyasint,omitempty"`
	Sized   *savedSized `cbor:"27,keyasint,omitempty"`
}

type savedSized struct {
	_                   struct{} `cbor:",toarray"`
	First, Second, Room int
}

type savedInner struct {
	Heard Moment `cbor:"1,keyasint,omitempty"`
	Count int    `cbor:"2,keyasint,omitempty"`
}

type savedPair struct {
	_     struct{} `cbor:",toarray"`
	Since Moment
	N     uint8
}

// TestRunning writes structs of running code as their plain structs are written, and reads them at another time.
func TestRunning(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	later := now.Add(time.Hour)
	make := func(now time.Time) []*running {
		at := func(d time.Duration) time.Time { return now.Add(d) }
		return []*running{
			{outer: new(outer)},
			{
				Head: Head{"running", 3}, at: at(5), Open: true, outer: &outer{until: at(-7)}, near: window{1, [2]uint64{2, 0}},
				far: window{3, [2]uint64{0, 4}}, inner: runInner{at(0), 9}, pointer: &runInner{heard: at(1)},
				list: []pair{{since: at(2), n: 1}, {n: 3}}, array: [2]pair{{since: at(-9)}, {n: 8}},
				key: 77, kind: "text", small: 300, sized: &sized{words: words{1, 2}, Room: 3},
			},
		}
	}
	plain := []*asSaved{
		{Array: []savedPair{{}, {}}},
		{
			Head: Head{"running", 3}, At: 6, Open: true, Until: -7, Newest: 1, Seen: []uint64{2, 0}, Far: 3,
			FarSeen: []uint64{0, 4}, Inner: savedInner{1, 9}, Pointer: &savedInner{Heard: 2},
			List: []savedPair{{Since: 3, N: 1}, {N: 3}}, Array: []savedPair{{Since: -9}, {N: 8}},
			Key: 77, Kind: "text", Small: 300, Sized: &savedSized{First: 1, Second: 2, Room: 3},
		},
	}
	want := make(later)
	for i, v := range make(now) {
		v.options, v.scratch, v.other = new(int), []byte{1}, 5
		v.list = append(v.list[:len(v.list):len(v.list)], pair{free: new(pair)})[:len(v.list)]
		b := AppendAt(now, []byte("before"), v)
		if got, only := bytes.CutPrefix(b, []byte("before")); !only || !bytes.Equal(got, Append(nil, plain[i])) {
			t.Errorf("value %d is\n%x, not\n%x", i, got, Append(nil, plain[i]))
			continue
		}
		b = b[len("before"):]
		full := make(now)[1] // all numbered fields are set, and the others stay
		full.options, full.other = v.options, 5
		for _, got := range []*running{{}, full} {
			if err := ReadAt(later, b, got); err != nil {
				t.Fatal(err)
			}
			if got.options, got.other = nil, 0; !reflect.DeepEqual(got, want[i]) {
				t.Errorf("value %d is read as %+v, not %+v", i, got, want[i])
			}
		}
		for n := range b {
			if ReadAt(later, b[:n], new(running)) == nil {
				t.Errorf("value %d: %d of its %d bytes are a record", i, n, len(b))
			}
		}
	}
}

var _ = Register[running](3, "running")

// TestDescribeRunning shows the record of a struct of running code: seconds, and no secrets.
func TestDescribeRunning(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	values, err := Describe(AppendAt(now, nil, &running{
		Head: Head{"running", 3}, at: now.Add(-1500 * time.Millisecond), outer: new(outer), far: window{newest: 2}, key: 77,
	}))
	want := map[string]any{"kind": "running", "version": 3, "at": -1.5, "far_newest": uint16(2), "key": "hidden"}
	if err != nil || !reflect.DeepEqual(values, want) {
		t.Errorf("%v, %v, want %v", values, err, want)
	}
}
