package top

import (
	"fmt"
	"strings"

	"tidegate/internal/admin"
)

// defaultSort is the index of the column by which players are sorted at first: the session, that is, by age.
const defaultSort = 0

// playerColumns are the columns of players.
var playerColumns = []column[Player]{
	{"SESSION", 8, true, 0, func(p *Player) string { return p.ID },
		func(a, b *Player) int { return compareIDs(a.ID, b.ID) }},
	{"CLIENT", 21, true, 0, func(p *Player) string { return p.Client.Address },
		by(func(p *Player) string { return p.Client.Address })},
	{"STATE", 11, true, 4, func(p *Player) string { return p.State }, by(func(p *Player) string { return p.State })},
	{"PROTOCOL", 12, true, 5, func(p *Player) string { return p.Client.Protocol },
		by(func(p *Player) string { return p.Client.Protocol })},
	{"SERVER", 21, true, 6, func(p *Player) string { return p.Server.Address },
		by(func(p *Player) string { return p.Server.Address })},
	{"RTT", 6, false, 0, func(p *Player) string { return milliseconds(p.Client.RTT) },
		by(func(p *Player) float64 { return p.Client.RTT })},
	{"RTT-S", 6, false, 1, func(p *Player) string { return milliseconds(p.Server.RTT) },
		by(func(p *Player) float64 { return p.Server.RTT })},
	{"UP/s", 6, false, 0, func(p *Player) string { return number(p.Up.Count) },
		by(func(p *Player) float64 { return p.Up.Count })},
	{"DOWN/s", 6, false, 0, func(p *Player) string { return number(p.Down.Count) },
		by(func(p *Player) float64 { return p.Down.Count })},
	{"RESENT", 7, false, 2, func(p *Player) string { return number(float64(p.Client.Resent + p.Server.Resent)) },
		by(func(p *Player) uint64 { return p.Client.Resent + p.Server.Resent })},
	{"LOST", 6, false, 3, func(p *Player) string { return number(float64(p.Client.Lost + p.Server.Lost)) },
		by(func(p *Player) uint64 { return p.Client.Lost + p.Server.Lost })},
	{"DROPPED", 8, false, 2, func(p *Player) string { return number(float64(p.Client.Dropped + p.Server.Dropped)) },
		by(func(p *Player) uint64 { return p.Client.Dropped + p.Server.Dropped })},
	{"QUEUED", 8, false, 3, func(p *Player) string { return size(float64(p.Client.Queued + p.Server.Queued)) },
		by(func(p *Player) int { return p.Client.Queued + p.Server.Queued })},
	{"AGE", 5, false, 3, func(p *Player) string { return age(p.Age) }, by(func(p *Player) float64 { return p.Age })},
}

// compareIDs compares session IDs, of which the longer is the younger.
func compareIDs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

var serverColumns = []column[Server]{
	{"UPSTREAM", 12, true, 0, func(s *Server) string { return s.Upstream }, nil},
	{"SERVER", 21, true, 0, func(s *Server) string { return s.Address }, nil},
	{"STATE", 8, true, 0, func(s *Server) string { return s.State }, nil},
	{"SESSIONS", 8, false, 0, func(s *Server) string { return number(float64(s.Sessions)) }, nil},
	{"MAX", 6, false, 1, func(s *Server) string {
		if s.MaxSessions == 0 {
			return "-"
		}
		return number(float64(s.MaxSessions))
	}, nil},
	{"RTT", 6, false, 1, func(s *Server) string { return milliseconds(s.RTT) }, nil},
	{"WEIGHT", 6, false, 2, func(s *Server) string { return fmt.Sprint(s.Weight) }, nil},
	{"CAUSE", 30, true, 3, func(s *Server) string { return s.Cause }, nil},
}

// now returns the lines of the proxy as a whole.
func (m *model) now() []string {
	s := &m.sample
	rate := func(name string, of func(*Sample) float64, text func(float64) string) string {
		return fmt.Sprintf("%-18s %8s  %s", name, text(of(s)), spark(m.samples, m.width-30, of))
	}
	lines := []string{
		bold.Render("per second"),
		rate("joins", func(s *Sample) float64 { return s.Joins }, number),
		rate("joins failed", func(s *Sample) float64 { return s.JoinsFailed }, number),
		rate("sessions ended", func(s *Sample) float64 { return s.Ended }, number),
		rate("messages up", func(s *Sample) float64 { return s.FromClients.Count }, number),
		rate("messages down", func(s *Sample) float64 { return s.FromServers.Count }, number),
		rate("bytes from clients", func(s *Sample) float64 { return s.ClientIn.Bytes }, size),
		rate("bytes to clients", func(s *Sample) float64 { return s.ClientOut.Bytes }, size),
		rate("resent to clients", func(s *Sample) float64 { return s.Client.Resent }, number),
		rate("resent to servers", func(s *Sample) float64 { return s.Server.Resent }, number),
		rate("dropped", func(s *Sample) float64 { return s.Dropped }, number),
		"",
		fmt.Sprintf("round trip, ms     %8s to clients, %s to servers",
			milliseconds(s.Client.RTT), milliseconds(s.Server.RTT)),
		fmt.Sprintf("queued             %8s to clients, %s to servers", size(s.Client.Queued), size(s.Server.Queued)),
		fmt.Sprintf("longest turn, ms   %8s   bans %s", milliseconds(s.LongestTurn), number(s.Bans)),
		"",
		bold.Render(fmt.Sprintf("%-22s %8s %10s", "dropped, by reason", "a second", "total")),
	}
	for _, d := range s.Drops {
		lines = append(lines, fmt.Sprintf("%-22s %8s %10s", clean(d.Reason), number(d.Rate), number(d.Total)))
	}
	if len(s.Drops) == 0 {
		lines = append(lines, "nothing")
	}
	return lines
}

// one returns the lines of a player: both legs side by side.
func (m *model) one() []string {
	p := m.player()
	if p == nil {
		return []string{"session " + clean(m.chosen) + " has ended; Esc goes back"}
	}
	lines := []string{
		bold.Render(cut(clean(fmt.Sprintf("session %s: %s for %s, by %s and %s (%s)", p.ID, p.State, age(p.Age), p.Listener,
			p.Route, p.Mode)), m.width)),
		"",
		bold.Render(fmt.Sprintf("%-18s %20s %20s", "", "CLIENT", "SERVER")),
	}
	add := func(name string, of func(*admin.Side) string) {
		client, server := fill(of(&p.Client), 20, false), fill(of(&p.Server), 20, false)
		lines = append(lines, fmt.Sprintf("%-18s %s %s", name, client, server))
	}
	add("address", func(s *admin.Side) string { return s.Address })
	add("protocol", func(s *admin.Side) string { return s.Protocol })
	add("round trip, ms", func(s *admin.Side) string { return milliseconds(s.RTT) })
	lines = append(lines, fmt.Sprintf("%-18s %20s %20s", "messages/s from", number(p.Up.Count), number(p.Down.Count)))
	lines = append(lines, fmt.Sprintf("%-18s %20s %20s", "bytes/s from", size(p.Up.Bytes), size(p.Down.Bytes)))
	for _, f := range []struct {
		name string
		of   func(*admin.Side) uint64
	}{
		{"messages from", func(s *admin.Side) uint64 { return s.Messages }},
		{"datagrams from", func(s *admin.Side) uint64 { return s.Received }},
		{"dropped from", func(s *admin.Side) uint64 { return s.Dropped }},
		{"datagrams to", func(s *admin.Side) uint64 { return s.Sent }},
		{"resent to", func(s *admin.Side) uint64 { return s.Resent }},
		{"lost to", func(s *admin.Side) uint64 { return s.Lost }},
	} {
		add(f.name, func(s *admin.Side) string { return fmt.Sprint(f.of(s)) })
	}
	add("queued to", func(s *admin.Side) string { return size(float64(s.Queued)) })
	course := func(name string, of func(*Player) float64) string {
		return fmt.Sprintf("%-18s %s", name, spark(m.course, m.width-30, of))
	}
	return append(lines, "",
		course("round trip, client", func(p *Player) float64 { return p.Client.RTT }),
		course("round trip, server", func(p *Player) float64 { return p.Server.RTT }),
		course("messages/s up", func(p *Player) float64 { return p.Up.Count }))
}

// spark draws a time line of a figure, the newest at the right. The highest value has the highest bar.
func spark[T any](all []T, width int, of func(*T) float64) string {
	const bars = "▁▂▃▄▅▆▇█"
	all = all[max(0, len(all)-max(width, 0)):]
	highest := 0.0
	for i := range all {
		highest = max(highest, of(&all[i]))
	}
	var b strings.Builder
	for i := range all {
		level := 0
		if highest > 0 {
			level = int(of(&all[i]) / highest * 7.99)
		}
		b.WriteRune([]rune(bars)[max(0, level)])
	}
	return b.String()
}
