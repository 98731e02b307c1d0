package beacon

import (
	"encoding/json"
	"fmt"
	"time"

	"tidegate/codec"
)

// record is a saved conn. Times are from the moment at which it was saved.
type record struct {
	Server, Up, Over, Greets bool
	Token                    [8]byte
	Hello, Bye               []byte
	Number                   [2]byte
	Heard, Due               time.Duration
	Waiting                  [][]byte
	Stats                    codec.Stats
}

// Save implements codec.Conn.
func (c *conn) Save(now time.Time, b []byte) []byte {
	saved, err := json.Marshal(record{
		c.server, c.up, c.over, c.greets, c.token, c.hello, c.bye, c.number, c.heard.Sub(now), c.due.Sub(now), c.waiting,
		c.stats,
	})
	if err != nil {
		panic(err) // never: a record has no type that JSON lacks
	}
	return append(b, saved...)
}

// Restore implements codec.Protocol.
func (p *Protocol) Restore(now time.Time, _ codec.Addresser, saved []byte) (codec.Conn, error) {
	var r record
	if err := json.Unmarshal(saved, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", codec.ErrSaved, err)
	}
	long := len(r.Hello) > maxPayload || len(r.Bye) > maxPayload+1 || len(r.Waiting) > maxWaiting
	for _, m := range r.Waiting {
		long = long || len(m) > maxPayload
	}
	if long || r.Heard > 0 || r.Heard < -time.Minute || r.Due > quiet || r.Due < -time.Minute {
		return nil, codec.ErrSaved
	}
	return &conn{
		server: r.Server, up: r.Up, over: r.Over, greets: r.Greets, token: r.Token, hello: r.Hello, bye: r.Bye,
		number: r.Number, heard: now.Add(r.Heard), due: now.Add(r.Due), waiting: r.Waiting, stats: r.Stats,
	}, nil
}
