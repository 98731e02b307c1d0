package codectest

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/fxamacker/cbor/v2"
	"tidegate/codec"
)

const (
	emptiedRounds = 20
	mostFields    = 46 // one more than the highest number of a field
)

// checkEmptied restores records in which one list is there and empty, for each list that they have or could have. A
// codec may take such a list for one that it made itself. What comes of the record must bear traffic with its peer.
func checkEmptied(r *report, c *Config, seed uint64) {
	saved := *c
	saved.replaces = true
	p, _ := trafficPair(r, &saved, weather{net: foul.net, excuse: true}, c.New, c.modes, seed)
	for _, s := range [][2]*side{{p.client, p.server}, {p.server, p.client}} {
		records, peers := s[0].saving.records, s[1].saving.records
		if len(records) == 0 || len(peers) == 0 {
			continue
		}
		// In the middle of the traffic, and at its end.
		for _, part := range []int{2, 1} {
			record, peer := records[(len(records)-1)/part], peers[(len(peers)-1)/part]
			emptied(record, func(path string, damaged []byte) {
				defer func() {
					if fault := recover(); fault != nil {
						r.Errorf("%s: a record with an empty list at %s: %v\n%s", s[0].name, path, fault, debug.Stack())
					}
				}()
				converse(p.net.Now(), s[0].saving.protocol, damaged, s[1].saving.protocol, peer)
			})
		}
	}
}

// emptied calls visit with each record that differs from one by an empty list. A codec of one's own may have records
// of another form than CBOR, which are left out.
func emptied(record []byte, visit func(path string, damaged []byte)) {
	var whole any
	if cbor.Unmarshal(record, &whole) != nil {
		return
	}
	eachField(whole, "", func(path string) {
		if damaged, err := cbor.Marshal(whole); err == nil {
			visit(path, damaged)
		}
	})
}

// eachField replaces each list of a value by an empty one, and adds one for each field that is missing, one at a time.
func eachField(v any, path string, visit func(path string)) {
	switch v := v.(type) {
	case map[any]any:
		for number := range uint64(mostFields) {
			old, has := v[number]
			list, isList := old.([]any)
			if has && (!isList || len(list) == 0) || number == 0 {
				eachField(old, fmt.Sprintf("%s.%d", path, number), visit)
				continue
			}
			v[number] = []any{}
			visit(fmt.Sprintf("%s.%d", path, number))
			if delete(v, number); has {
				v[number] = old
				eachField(old, fmt.Sprintf("%s.%d", path, number), visit)
			}
		}
	case []any:
		for i := range min(len(v), 2) {
			eachField(v[i], fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}

// converse restores both ends of a connection, and lets them talk.
func converse(now time.Time, damagedOf codec.Protocol, damaged []byte, peerOf codec.Protocol, peer []byte) {
	one, err := damagedOf.Restore(now, nil, damaged)
	if err != nil {
		return
	}
	other, err := peerOf.Restore(now, nil, peer)
	if err != nil {
		return
	}
	for range emptiedRounds {
		for _, ends := range [][2]codec.Conn{{one, other}, {other, one}} {
			for m := range codec.Mode(codec.ModeCount) {
				_ = ends[0].Send(now, codec.Message{Payload: []byte("a message"), Mode: m, Receipt: 1}) // any error will do
			}
			ends[0].Advance(now)
			for range damagedRound {
				datagram, ok := ends[0].Transmit(now, nil)
				if !ok {
					break
				}
				_ = ends[1].Receive(now, datagram)
			}
			Drain(ends[1])
			if w, ok := ends[0].(codec.WorldResetter); ok {
				w.ResetWorld(now)
			}
		}
		now = now.Add(50 * time.Millisecond)
	}
	one.Save(now, nil)
}
