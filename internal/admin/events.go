package admin

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Bounds of the time line.
const (
	maxEvents    = 512
	maxEventText = 200 // bytes
)

// Event is the JSON of one event of the time line.
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // "start", "server", "reload", "upgrade", "flood", "ban", "drain", "limit" or "disk"
	Bad  bool      `json:"bad"`  // an operator should look
	Text string    `json:"text"`
}

// EventList is the JSON of the time line, oldest first.
type EventList struct {
	Events []Event `json:"events"`
}

// Events is the time line of a process: its last 512 events, at most some 150 KiB. The zero value and nil are ready to
// use; nil keeps nothing. It is safe for concurrent use, and Add never waits for a reader's connection.
type Events struct {
	mu   sync.Mutex
	ring []Event
	next int
}

// Add adds an event of this moment. A long text is cut.
func (e *Events) Add(kind string, bad bool, format string, args ...any) {
	if e == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	one := Event{time.Now().UTC(), kind, bad, text[:min(len(text), maxEventText)]}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ring) < maxEvents {
		e.ring = append(e.ring, one)
		return
	}
	e.ring[e.next] = one
	e.next = (e.next + 1) % maxEvents
}

// List returns the events, oldest first.
func (e *Events) List() []Event {
	if e == nil {
		return []Event{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(append([]Event{}, e.ring[e.next:]...), e.ring[:e.next]...)
}

func (s *Server) listEvents(*http.Request) (EventList, error) { return EventList{s.Events.List()}, nil }
