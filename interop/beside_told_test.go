//go:build interop

package interop_test

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
)

// noENet is a sender whose datagrams no player of a listener for ENet would send.
var noENet = &kit{name: "a stranger to ENet", protocol: "enet", server: plainServer}

// sends has a stranger send a datagram some times.
func sends(datagram string) step {
	return func(s *stage) {
		b, err := hex.DecodeString(datagram)
		if err != nil {
			s.t.Fatal(err)
		}
		socket := towards(s.door, 0)
		defer func() { _ = socket.Close() }()
		for range 3 {
			_, _ = socket.Write(b) // a lost one shows
		}
	}
}

// explains wants Tidegate to tell the reason of a drop in its log, in its metrics and in its answer to why.
func explains(reason string) step {
	return func(s *stage) {
		if s.gate == nil {
			return
		}
		named := func(e journalEntry) bool { return e.Reason == reason }
		if !s.within(patience, func() bool { return s.gate.hasLogged(named) }) {
			s.t.Errorf("the log does not name %s", reason)
		}
		counted := regexp.MustCompile(`(?m)^tidegate_dropped_total{.*"` + reason + `"} [1-9]`)
		if !counted.MatchString(s.asked("/metrics")) {
			s.t.Errorf("the metrics do not count %s", reason)
		}
		if why := s.asked("/api/v1/why?address=127.0.0.1"); !strings.Contains(why, `"`+reason+`"`) {
			s.t.Errorf("why does not name %s: %s", reason, why)
		}
	}
}

// endsAs wants the log to tell that a session ended for a reason, by a party.
func endsAs(reason, by string) step {
	return func(s *stage) {
		ended := func(e journalEntry) bool { return e.Message == "session ended" && e.Reason == reason && e.By == by }
		if s.gate != nil && !s.within(patience, func() bool { return s.gate.hasLogged(ended) }) {
			s.t.Errorf("no session ended as %s by %s", reason, by)
		}
	}
}

// hasLogged reads the log up to a line, if it is there.
func (p *proxy) hasLogged(is func(journalEntry) bool) bool {
	for {
		select {
		case e := <-p.journal:
			if is(e) {
				return true
			}
		default:
			return false
		}
	}
}

// asked returns the answer of Tidegate's admin socket.
func (s *stage) asked(path string) string {
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.admin)
		},
	}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://localhost" + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// toldRows are situations in which nothing can be better, and the operator must be told why.
func toldRows() []situation {
	const hello = "16fefd0000000000000000" + "0030" + "01" + "000024000000000000002400"
	strange := func(name, datagram, reason string) situation {
		return situation{name: name, kit: noENet, still: true, mute: true, ci: true,
			steps: []step{sends(datagram), explains(reason)}}
	}
	return []situation{
		strange("DTLS", hello, "dtls"),
		strange("a question of a server browser", "ffffffff676574696e666f20", "query"),
		{name: "a player loads for 4 s, idle_timeout of 2 s", kit: cSharp(60, 8), still: true, limit: 15 * sec,
			serverArgs: []string{"30"}, clientArgs: []string{"30"}, more: "[limits]\nidle_timeout = \"2s\"",
			steps: []step{in, pass(sec), pause(false, 4*sec), pass(sec), settle}},
	}
}
