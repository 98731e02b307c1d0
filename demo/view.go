package demo

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"time"

	"tidegate/proxy"
)

// maxRows is how many sessions the table shows: it must fit on any screen to be redrawn in place.
const maxRows = 12

// ANSI control sequences.
const (
	cursorUp = "\x1b[%dA" // by so many lines
	clearEnd = "\x1b[K"   // to the end of the line
)

// view shows how sessions go: on a terminal as a table with a row a session, redrawn in place; elsewhere as one row for
// all of them at a time.
type view struct {
	out      io.Writer
	terminal bool
	began    time.Time
	shown    time.Time // when the latest snapshot was
	before   map[netip.AddrPort]proxy.Session
	lines    int // of the table on the terminal
	headed   bool
}

func newView(out io.Writer, terminal bool, now time.Time) *view {
	return &view{out: out, terminal: terminal, began: now, shown: now}
}

// show shows a snapshot taken now, with rates since the one before.
func (v *view) show(now time.Time, s proxy.Snapshot) {
	rows := v.measure(now, s.Sessions)
	if v.terminal {
		v.redraw(now, s.Sessions, rows)
		return
	}
	text := ""
	if !v.headed {
		v.headed = true
		text = heading(spoken(s.Sessions), "time", "open")
	}
	all := sum(rows)
	v.write(text + row(seconds(now.Sub(v.began)), fmt.Sprint(len(rows)), &all))
}

// redraw replaces the table on the terminal. It may have become shorter or longer.
func (v *view) redraw(now time.Time, sessions []proxy.Session, rows []figures) {
	var b bytes.Buffer
	b.WriteString(heading(spoken(sessions), "client", "age"))
	for i := range rows {
		if i == maxRows {
			fmt.Fprintf(&b, "and %d more\n", len(rows)-maxRows)
			break
		}
		b.WriteString(row(sessions[i].Client.String(), seconds(sessions[i].Age), &rows[i]))
	}
	all := sum(rows)
	b.WriteString(row("all "+fmt.Sprint(len(rows)), seconds(now.Sub(v.began)), &all))

	lines := bytes.Count(b.Bytes(), []byte("\n"))
	for ; lines < v.lines; lines++ {
		b.WriteByte('\n')
	}
	text := string(bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(clearEnd+"\n")))
	if v.lines > 0 {
		text = fmt.Sprintf(cursorUp, v.lines) + text
	}
	v.lines = lines
	v.write(text)
}

// measure works out the figures of all sessions, and remembers the sessions for the next time.
func (v *view) measure(now time.Time, sessions []proxy.Session) []figures {
	interval := now.Sub(v.shown)
	rows := make([]figures, len(sessions))
	known := make(map[netip.AddrPort]proxy.Session, len(sessions))
	for i := range sessions {
		s := &sessions[i]
		before := v.before[s.Client]
		rows[i] = figures{
			clientRTT:    s.ClientStats.RTT,
			serverRTT:    s.UpstreamStats.RTT,
			toServer:     rateOf(before.FromClient, s.FromClient, interval),
			toClient:     rateOf(before.FromUpstream, s.FromUpstream, interval),
			clientResent: s.ClientStats.Resent,
			serverResent: s.UpstreamStats.Resent,
			dropped:      s.ClientStats.Dropped + s.UpstreamStats.Dropped,
		}
		known[s.Client] = *s
	}
	v.before, v.shown = known, now
	return rows
}

// spoken is the protocols of the sessions, which all speak the same.
func spoken(sessions []proxy.Session) string {
	if len(sessions) == 0 {
		return ""
	}
	return sessions[0].ClientProtocol + " to " + sessions[0].UpstreamProtocol
}

// write writes text. A reader who is gone does not end the demo: its result still counts.
func (v *view) write(text string) { _, _ = io.WriteString(v.out, text) }
