package codectest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"tidegate/codec"
)

// laterField is a number that no record uses.
const laterField = 250

// checkLater restores records of a later release. Restore skips a field that it does not know, and refuses another
// version.
func checkLater(t tb, c *Config) {
	simulate(t, "later release", func(r *report) {
		p := connectedPair(r, c, 1)
		if p == nil {
			return
		}
		now := p.net.Now()
		for _, s := range []*side{p.client, p.server} {
			record := s.conn.Save(now, nil)
			if entriesOf(record) == nil {
				return // the suite's own toy
			}
			protocol, _ := c.New(1)
			conn, err := protocol.Restore(now, nil, withEntry(record, laterField, map[int]any{1: "later", 2: []int{1, 2}}))
			if err != nil {
				r.Errorf("%s: a record with an unknown field: %v", s.name, err)
				continue
			}
			if again := conn.Save(now, nil); !bytes.Equal(again, record) {
				r.Errorf("%s: a record with an unknown field is restored as another one", s.name)
			}
			if _, err := protocol.Restore(now, nil, withEntry(record, 2, 1000)); !errors.Is(err, codec.ErrSaved) {
				r.Errorf("%s: a record of version 1000: %v, want ErrSaved", s.name, err)
			}
		}
	})
}

// withEntry returns a record with another value of a field.
func withEntry(record []byte, field int, value any) []byte {
	entries := make(map[int]cbor.RawMessage)
	if err := cbor.Unmarshal(record, &entries); err != nil {
		panic(err)
	}
	encoded, err := cbor.Marshal(value)
	if err != nil {
		panic(err)
	}
	entries[field] = encoded
	changed, err := cbor.Marshal(entries)
	if err != nil {
		panic(err)
	}
	return changed
}

// entriesOf returns the fields of a record by their numbers, or nil if it is none.
func entriesOf(record []byte) map[any]any {
	var entries map[any]any
	if cbor.Unmarshal(record, &entries) != nil {
		return nil
	}
	return entries
}

// lostEntry returns the path of the first value that another record lacks, or has otherwise. The other record may have
// further fields.
func lostEntry(of, other any, path string) string {
	fields, ok := of.(map[any]any)
	if !ok {
		if reflect.DeepEqual(of, other) {
			return ""
		}
		return path
	}
	others, _ := other.(map[any]any)
	for field, value := range fields {
		if lost := lostEntry(value, others[field], fmt.Sprint(path, " ", field)); lost != "" {
			return lost
		}
	}
	return ""
}
