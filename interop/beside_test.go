//go:build interop

package interop_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// situation is a row: what happens to players and their server. It is played directly and through the binary, with the
// same peers, seeds and disturbances.
type situation struct {
	name       string
	kit        *kit
	ways       []string // through the binary; none: the disturbance is the server's leg's, if there is one
	path       climate  // of the way to the players, from the start
	limit      time.Duration
	steps      []step
	lab        func(t *testing.T) *lab // nil: loopback, with legs in user space
	discovered bool                    // Tidegate finds the server by its name
	still      bool                    // no leg is disturbed
	ci         bool                    // a row of TestBesideSome
	known      string                  // why through may be worse
	beyond     bool                    // through must be whole where direct is not
	slack      time.Duration           // what through may take longer, if more than leastSlack
	mute       bool                    // no player is asked at the end
	oneWay     bool                    // no player waits for echoes

	route, upstream, more  string // of the configuration
	players                string // their protocol; empty: the kit's
	serverArgs, clientArgs []string
	samePort               bool // a player keeps its port
	guid                   int  // of a go-raknet player; 0: any
}

// A play through the binary may take longer by this and by half.
const leastSlack = 500 * time.Millisecond

// worse returns in what a play through the binary is worse than a direct one.
func (d outcome) worse(o outcome, row *situation) (faults []string) {
	if row.beyond {
		d.in, d.alive, d.lost, d.doubled, d.disorder = d.players, d.players, 0, 0, 0
	}
	fewer := func(name string, want, got int) {
		if got < want {
			faults = append(faults, fmt.Sprintf("%s %d of %d", name, got, want))
		}
	}
	fewer("in", d.in, o.in)
	fewer("alive", d.alive, o.alive)
	if row.kit.lossy || d.alive < d.players { // the number is the time's
		d.lost += d.lost/2 + 5
	}
	fewer("lost", -d.lost, -o.lost)
	fewer("doubled", -d.doubled, -o.doubled)
	fewer("out of order", -d.disorder, -o.disorder)
	for _, what := range slices.Sorted(maps.Keys(d.times)) {
		if took, ok := o.times[what]; !ok || took > d.times[what]+max(leastSlack, row.slack, d.times[what]/2) {
			faults = append(faults, what)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(d.figures)) {
		if want := d.figures[what]; math.Abs(o.figures[what]-want) > max(0.5, want/2) {
			faults = append(faults, what)
		}
	}
	told := func(a, b []string) bool { // a has what b has not
		return slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
	}
	if told(o.told, d.told) || (!o.asked || o.alive < o.players) && told(d.told, o.told) {
		faults = append(faults, "told")
	}
	return faults
}

// String shows an outcome in a cell of the table.
func (o outcome) String() string {
	var s []string
	add := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }
	switch {
	case o.asked:
		add("in %d, alive %d of %d", o.in, o.alive, o.players)
	case o.players > 0:
		add("in %d of %d", o.in, o.players)
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"lost", o.lost}, {"doubled", o.doubled}, {"out of order", o.disorder}} {
		if n.n > 0 {
			add("%s %d", n.name, n.n)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(o.times)) {
		add("%s %.2f s", what, o.times[what].Seconds())
	}
	for _, what := range slices.Sorted(maps.Keys(o.figures)) {
		add("%s %.1f", what, o.figures[what])
	}
	if len(o.told) > 0 {
		add("told %s", strings.Join(o.told, " and "))
	}
	return strings.Join(s, ", ")
}

// mostPlays is how often a row is played at most: a fault counts if it is there twice. Once can be the machine's.
const mostPlays = 3

// line is a row of the table.
type line struct{ name, way, direct, through, verdict string }

// play plays a row, and returns its lines. The ways run at the same time, under the same load.
func (row *situation) play(t *testing.T) (lines []line) {
	ways := row.ways
	if len(ways) == 0 {
		ways = []string{serversLeg}
	}
	bad := make(map[string]int)
	open := slices.Clone(ways)
	for range mostPlays {
		outcomes := row.playOnce(t, append([]string{direct}, open...))
		var again []string
		for _, way := range open {
			d, ok := outcomes[direct]
			o, played := outcomes[way]
			if !ok || !played {
				continue // it has failed, and says why
			}
			faults := d.worse(o, row)
			l := line{row.name + ", " + row.kit.name, way, d.String(), o.String(), "good"}
			if row.still || row.lab != nil {
				l.way = "–"
			}
			switch {
			case len(faults) == 0:
			case bad[way] == 0:
				bad[way]++
				again = append(again, way)
				continue
			case row.known != "":
				l.verdict = "known: " + row.known
			default:
				l.verdict = "**worse**: " + strings.Join(faults, ", ")
				t.Errorf("%s, %s: worse in %s\ndirect: %s\nthrough: %s", l.name, way, strings.Join(faults, ", "), d, o)
			}
			lines = append(lines, l)
		}
		if open = again; len(open) == 0 {
			break
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return slices.Index(ways, a.way) - slices.Index(ways, b.way) })
	return lines
}

func (row *situation) playOnce(t *testing.T, ways []string) map[string]outcome {
	var mu sync.Mutex
	outcomes := make(map[string]outcome)
	t.Run("ways", func(t *testing.T) {
		for _, way := range ways {
			t.Run(strings.ReplaceAll(way, " ", "-"), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, row, way)
				for _, step := range row.steps {
					step(s)
				}
				o := s.outcome()
				mu.Lock()
				outcomes[way] = o
				mu.Unlock()
			})
		}
	})
	return outcomes
}

// playAll plays rows, and prints the table.
func playAll(t *testing.T, rows []situation) {
	var mu sync.Mutex
	table := make(map[int][]line)
	began := time.Now()
	t.Cleanup(func() {
		var text strings.Builder
		worse := 0
		for _, i := range slices.Sorted(maps.Keys(table)) {
			for _, l := range table[i] {
				fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", l.name, l.way, l.direct, l.through, l.verdict)
				if l.verdict != "good" {
					worse++
				}
			}
		}
		fmt.Fprintf(os.Stdout, "\n| situation | disturbed | direct | through | verdict |\n| --- | --- | --- | --- | --- |\n"+
			"%s\nworse in %d lines; %.0f s in all\n", text.String(), worse, time.Since(began).Seconds())
	})
	for i := range rows {
		row := &rows[i]
		row.limit = cmp.Or(row.limit, 10*time.Second)
		t.Run(strings.ReplaceAll(row.name+" "+row.kit.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			lines := row.play(t)
			mu.Lock()
			defer mu.Unlock()
			table[i] = lines
			t.Logf("%+v", lines)
		})
	}
}

// TestBesideSome plays the quick rows.
func TestBesideSome(t *testing.T) {
	playAll(t, slices.DeleteFunc(slices.Clone(besideRows()), func(s situation) bool { return !s.ci }))
}
