package demo

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// layout is the set of columns of the live table: two columns that identify a row, then figures in groups.
type layout struct {
	what, more int // widths of the first two columns; the second is left out if zero
	figures    []column
}

// column is one figure of a row. Neighboring columns of a group stand under the group's heading, which is at their
// right end.
type column struct {
	group, name string
	width       int
	text        func(*figures) string
}

// layouts are the layouts of the live table, the widest first.
var layouts = []layout{wide, standard, narrow, slim}

// layoutFor returns the layout with the most figures that fits on a screen, or the slimmest one.
func layoutFor(s screen) layout {
	for _, l := range layouts {
		if l.width() <= s.width {
			return l
		}
	}
	return slim
}

var (
	// wide is 100 characters wide.
	wide = layout{what: 16, more: 6, figures: []column{
		{"round trip", "client", 11, func(f *figures) string { return roundTrip(f.clientRTT) }},
		{"round trip", "server", 9, func(f *figures) string { return roundTrip(f.serverRTT) }},
		{"to server", "msg/s", 8, func(f *figures) string { return number(f.toServer.messages) }},
		{"to server", "bytes/s", 9, func(f *figures) string { return size(f.toServer.bytes) }},
		{"to client", "msg/s", 8, func(f *figures) string { return number(f.toClient.messages) }},
		{"to client", "bytes/s", 9, func(f *figures) string { return size(f.toClient.bytes) }},
		{"resent", "client", 9, func(f *figures) string { return fmt.Sprint(f.clientResent) }},
		{"resent", "server", 7, func(f *figures) string { return fmt.Sprint(f.serverResent) }},
		{"", "dropped", 8, func(f *figures) string { return fmt.Sprint(f.dropped) }},
	}}
	// standard has the same figures in 79 characters, with units in the headings.
	standard = layout{what: 8, more: 5, figures: []column{
		{"round trip, ms", "client", 8, func(f *figures) string { return milliseconds(f.clientRTT) }},
		{"round trip, ms", "server", 7, func(f *figures) string { return milliseconds(f.serverRTT) }},
		{"to server", "msg/s", 7, func(f *figures) string { return number(f.toServer.messages) }},
		{"to server", "kB/s", 7, func(f *figures) string { return kilobytes(f.toServer.bytes) }},
		{"to client", "msg/s", 7, func(f *figures) string { return number(f.toClient.messages) }},
		{"to client", "kB/s", 7, func(f *figures) string { return kilobytes(f.toClient.bytes) }},
		{"resent", "client", 8, func(f *figures) string { return fmt.Sprint(f.clientResent) }},
		{"resent", "server", 7, func(f *figures) string { return fmt.Sprint(f.serverResent) }},
		{"", "dropped", 8, func(f *figures) string { return fmt.Sprint(f.dropped) }},
	}}
	// narrow is 59 characters wide: without bytes, and with one figure for resends to both sides.
	narrow = layout{what: 8, more: 5, figures: slices.Concat(slim.figures, []column{
		{"", "resent", 8, func(f *figures) string { return fmt.Sprint(f.clientResent + f.serverResent) }},
		{"", "dropped", 8, func(f *figures) string { return fmt.Sprint(f.dropped) }},
	})}
	// slim is 38 characters wide: round trips and messages only.
	slim = layout{what: 8, figures: []column{
		{"round trip, ms", "client", 8, func(f *figures) string { return milliseconds(f.clientRTT) }},
		{"round trip, ms", "server", 7, func(f *figures) string { return milliseconds(f.serverRTT) }},
		{"messages/s to", "server", 8, func(f *figures) string { return number(f.toServer.messages) }},
		{"messages/s to", "client", 7, func(f *figures) string { return number(f.toClient.messages) }},
	}}
)

func (l layout) width() int {
	width := l.what + l.more
	for i := range l.figures {
		width += l.figures[i].width
	}
	return width
}

// heading returns the lines above the rows: the pair of protocols, if known, and the names of the columns.
func (l layout) heading(pair, what, more string) []string {
	groups := strings.Repeat(" ", l.what+l.more)
	names := l.about(what, more)
	width := 0 // of the current group
	for i := range l.figures {
		c := &l.figures[i]
		names += fmt.Sprintf("%*s", c.width, c.name)
		width += c.width
		if i+1 == len(l.figures) || l.figures[i+1].group != c.group {
			groups += fmt.Sprintf("%*s", width, c.group)
			width = 0
		}
	}
	lines := []string{strings.TrimRight(groups, " "), names}
	if pair != "" {
		lines = append([]string{pair}, lines...)
	}
	return lines
}

func (l layout) row(what, more string, f *figures) string {
	line := l.about(what, more)
	for i := range l.figures {
		line += fmt.Sprintf("%*s", l.figures[i].width, l.figures[i].text(f))
	}
	return line
}

// about returns the first two columns.
func (l layout) about(what, more string) string {
	if l.more == 0 {
		more = ""
	}
	return fmt.Sprintf("%-*s%*s", l.what, what, l.more, more)
}

// client names a client by its address, or only by its port where space is short: all clients are on one host.
func (l layout) client(addr netip.AddrPort) string {
	if text := addr.String(); len(text) < l.what {
		return text
	}
	return fmt.Sprint(":", addr.Port())
}

func number(n float64) string { return fmt.Sprintf("%.0f", n) }

func kilobytes(n float64) string { return fmt.Sprintf("%.1f", n/1e3) }

// milliseconds formats a round trip without its unit; "-" if it is unknown.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", d.Seconds()*1e3)
}
