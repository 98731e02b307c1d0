package codectest

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
)

// The functions below drive a Conn by hand, in a codec's own tests.

// Transmit returns all datagrams that c wants to send.
func Transmit(c codec.Conn, now time.Time) (datagrams [][]byte) {
	for d, ok := c.Transmit(now, nil); ok; d, ok = c.Transmit(now, nil) {
		datagrams = append(datagrams, d)
	}
	return datagrams
}

// Drain returns all events of c, with copied payloads.
func Drain(c codec.Conn) (events []codec.Event) {
	for e, ok := c.Poll(); ok; e, ok = c.Poll() {
		e.Payload = bytes.Clone(e.Payload)
		events = append(events, e)
	}
	return events
}

// Kinds returns the kinds of events.
func Kinds(events []codec.Event) (list []codec.EventKind) {
	for _, e := range events {
		list = append(list, e.Kind)
	}
	return list
}

// Unhex reads hexadecimal, which may contain spaces.
func Unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Watcher drains a Conn after each input, and checks the order of its events.
type Watcher struct {
	T               testing.TB
	Conn            codec.Conn
	connected, over bool
}

// Drain drains the Conn.
func (w *Watcher) Drain() []codec.Event {
	w.T.Helper()
	events := Drain(w.Conn)
	for _, e := range events {
		switch {
		case w.over:
			w.T.Errorf("%v after Disconnected", e.Kind)
		case e.Kind == codec.Connected && w.connected:
			w.T.Error("Connected twice")
		case e.Kind == codec.Received && !w.connected:
			w.T.Error("Received before Connected")
		}
		w.connected = w.connected || e.Kind == codec.Connected
		w.over = w.over || e.Kind == codec.Disconnected
	}
	return events
}

// Over reports whether Disconnected has come.
func (w *Watcher) Over() bool { return w.over }
