package fleet

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"tidegate/internal/stray"
)

// TestPlayerSet reads what was written, and refuses what no node sends.
func TestPlayerSet(t *testing.T) {
	m := &playerSet{instance: "inst", number: 7, begins: true, opened: keys(1, 2), closed: keys(3)}
	good := m.format()
	if got, err := parsePlayerSet(good); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v", got, err)
	}
	at := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	count := 3 + len(m.instance) + 8
	for name, b := range map[string][]byte{
		"nothing": nil, "another form": at(0, 9), "unknown flags": at(1, 8), "a long name": at(2, 255), "no name": at(2, 0),
		"number 0": at(count-1, 0), "more than there are": at(count+3, 4), "half a key": good[:len(good)-1],
		"a name that wraps around": append([]byte{setForm, 0, 253}, make([]byte, 300)...),
		"too many":                 append(good, make([]byte, 8*maxSetKeys)...),
	} {
		if got, err := parsePlayerSet(b); !errors.Is(err, errSet) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestPlayerSets splits a large set, and bounds it.
func TestPlayerSets(t *testing.T) {
	opened := make([]stray.Key, maxSets*maxSetKeys+5)
	all, beyond := playerSets(opened, nil, true)
	if len(all) != maxSets || beyond != 5 || !all[0].begins || all[0].ends || !all[maxSets-1].ends {
		t.Errorf("%d messages, %d beyond", len(all), beyond)
	}
	all, _ = playerSets(nil, nil, true)
	if len(all) != 1 || !all[0].begins || !all[0].ends {
		t.Errorf("an empty set: %+v", all)
	}
	if all, _ = playerSets(keys(1), keys(2), false); len(all) != 2 || all[0].begins || all[1].ends {
		t.Errorf("changes: %+v", all)
	}
}

func FuzzPlayerSet(f *testing.F) {
	f.Add((&playerSet{instance: "x", number: 1, opened: keys(1), closed: keys(2)}).format())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parsePlayerSet(b)
		if err == nil && !bytes.Equal(m.format(), b) {
			t.Errorf("%x is written as %x", b, m.format())
		}
	})
}
