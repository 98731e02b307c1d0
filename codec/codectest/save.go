package codectest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
)

const (
	saveSeeds   = 3  // simulations of each kind of network conditions
	savedShare  = 4  // a side is saved after one in this many Transmit rounds
	keptRecords = 60 // of one simulation

	damages       = 4  // altered copies of each record
	damagedInputs = 20 // of the Conn of one
	damagedRound  = 200
	fuzzedRecords = 30 // of each side, as seeds
)

// saving replaces a side's Conn, now and then, by one that was restored from its saved state.
type saving struct {
	rng      *rand.Rand // its own, so that a twin that is not saved sees the same random numbers
	protocol codec.Protocol
	replaces bool // false: this is the twin that keeps its Conn
	records  [][]byte
}

// startSaving lets both sides be saved, if this is a simulation of twins. Fresh protocols restore them.
func (p *pair) startSaving(build factory, seed uint64) {
	if !p.c.twins {
		return
	}
	server, client := build(seed)
	for i, s := range []*side{p.server, p.client} {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		protocol := []codec.Protocol{server, client}[i]
		s.saving = &saving{rng: rng, protocol: protocol, replaces: p.c.replaces}
	}
}

// maySave follows each Transmit round. It polls the events that the round left, as Save's caller must.
func (s *side) maySave(now time.Time) {
	v := s.saving
	if v == nil {
		return
	}
	s.drain(now)
	if s.c.fields != nil && !s.over {
		s.c.fields.look(now, s.conn, v.protocol)
	}
	if s.over || !v.replaces || v.rng.IntN(savedShare) > 0 {
		return
	}
	saved := bytes.Clone(guard)
	record, only := bytes.CutPrefix(s.conn.Save(now, saved), guard)
	if !only {
		s.r.Errorf("%s: Save does not only append", s.name)
		return
	}
	restored, err := v.protocol.Restore(now, nil, record)
	if err != nil {
		s.r.Errorf("%s: Restore of what Save wrote: %v", s.name, err)
		return
	}
	if len(v.records) < keptRecords {
		v.records = append(v.records, record)
	}
	s.compareRestored(now, record, restored)
	s.conn = restored
}

// compareRestored compares a restored Conn with its original, as far as they tell without an input.
func (s *side) compareRestored(now time.Time, record []byte, restored codec.Conn) {
	if again := restored.Save(now, nil); !bytes.Equal(again, record) {
		s.r.Errorf("%s: a restored Conn saves %d other bytes:\n%x\nwant\n%x", s.name, len(again), again, record)
	}
	if got, want := restored.NextTimeout(), s.conn.NextTimeout(); !got.Equal(want) {
		s.r.Errorf("%s: a restored Conn's timeout is %v, want %v", s.name, got, want)
	}
	if got, want := restored.Stats(), s.conn.Stats(); got != want {
		s.r.Errorf("%s: a restored Conn's figures are %+v, want %+v", s.name, got, want)
	}
}

// checkSave plays each simulation twice: once as usual, and once with both ends saved and restored again and again.
// The datagrams must be the same, byte for byte and at the same times. Then it restores damaged records.
func checkSave(t tb, c *Config) {
	twin := *c
	twin.twins = true
	kinds := weathers
	if testing.Short() { // games of one goroutine: the race detector finds nothing in them
		kinds = []weather{foul}
	}
	if c.NearWrap != nil && !testing.Short() {
		kinds = append(kinds[:len(kinds):len(kinds)], weather{name: "wrap", net: foul.net, excuse: true})
	}
	for _, w := range kinds {
		build := c.New
		if w.name == "wrap" {
			build = c.NearWrap
		}
		sets := [][]codec.Mode{c.modes}
		if w.name == foul.name && !testing.Short() {
			sets = c.modeSets()
		}
		for _, modes := range sets {
			simulateSeeds(t, numberOfSaveSeeds(), func(r *report, seed uint64) {
				r.what = fmt.Sprintf("%s, %v: %s", w.name, modes, r.what)
				playTwins(r, &twin, func(c *Config) uint64 {
					digest, _ := traffic(r, c, w, build, modes, seed)
					return digest
				})
			})
		}
	}
	checkSaveHandshakes(t, &twin)
	simulateSeeds(t, numberOfSaveSeeds(), func(r *report, seed uint64) { checkDamaged(r, &twin, seed) })
	simulateSeeds(t, 2, func(r *report, seed uint64) { checkEmptied(r, &twin, seed) })
}

func numberOfSaveSeeds() int {
	if testing.Short() {
		return 1
	}
	return saveSeeds
}

// checkSaveHandshakes plays the longer handshakes of some protocols as twins.
func checkSaveHandshakes(t tb, twin *Config) {
	server, _ := twin.New(1)
	simulateSeeds(t, numberOfSaveSeeds(), func(r *report, seed uint64) {
		if isGranter(server) {
			playTwins(r, twin, func(c *Config) uint64 { return grantLate(r, c, seed, foul.net) })
		}
		playTwins(r, twin, func(c *Config) uint64 {
			digest, _ := tentative(r, c, seed, true)
			return digest
		})
	})
	if _, ok := server.(codec.PerLoop); ok {
		loops := *twin
		loops.New = perLoop(twin.New)
		simulateSeeds(t, numberOfSaveSeeds(), func(r *report, seed uint64) {
			playTwins(r, &loops, func(c *Config) uint64 {
				digest, _ := traffic(r, c, foul, c.New, c.modes, seed)
				return digest
			})
		})
	}
}

// modeSets returns each mode by itself, and all together.
func (c *Config) modeSets() [][]codec.Mode {
	sets := [][]codec.Mode{c.modes}
	for _, m := range c.modes {
		sets = append(sets, []codec.Mode{m})
	}
	return sets
}

// playTwins plays a simulation without and with saving. Both must send the same datagrams.
func playTwins(r *report, c *Config, play func(*Config) uint64) {
	plain, saved := *c, *c
	saved.replaces = true
	want := play(&plain)
	if got := play(&saved); got != want && !r.Failed() {
		r.Errorf("a session that was saved and restored sends other datagrams than its twin")
	}
}

// checkDamaged restores truncated and altered records. A truncated record is an error. An altered one may be usable:
// then its Conn must bear further traffic.
func checkDamaged(r *report, c *Config, seed uint64) {
	saved := *c
	saved.replaces = true
	p, _ := trafficPair(r, &saved, weather{net: foul.net, excuse: true}, c.New, c.modes, seed)
	h := &hostileSource{rng: rand.New(rand.NewPCG(seed, 3))}
	for _, s := range []*side{p.client, p.server} {
		for _, record := range s.saving.records {
			truncated := record[:h.rng.IntN(len(record))]
			if _, err := s.saving.protocol.Restore(p.net.Now(), nil, truncated); !errors.Is(err, codec.ErrSaved) {
				r.Errorf("%s: Restore of %d of %d bytes: %v, want ErrSaved", s.name, len(truncated), len(record), err)
			}
			for range damages {
				damaged := bytes.Clone(record)
				for range 1 + h.rng.IntN(3) {
					damaged[h.rng.IntN(len(damaged))] = byte(h.rng.Uint32())
				}
				live(r, s.saving.protocol, damaged, p.net.Now(), h)
			}
		}
	}
}

// live drives a Conn that comes of a damaged record, if the codec takes the record.
func live(t interface{ Errorf(string, ...any) }, protocol codec.Protocol, damaged []byte, now time.Time,
	h *hostileSource) {
	conn, err := protocol.Restore(now, nil, damaged)
	if err != nil {
		if conn != nil { // perhaps a nil pointer, which callers take for a Conn
			t.Errorf("Restore returns both a %T and an error: %v", conn, err)
		}
		return
	}
	for range damagedInputs {
		now = now.Add(time.Duration(h.rng.IntN(300)) * time.Millisecond)
		if h.rng.IntN(2) == 0 {
			conn.Advance(now)
		} else {
			_ = conn.Receive(now, h.random()) // any error will do
		}
		Drain(conn)
		for range damagedRound {
			if _, ok := conn.Transmit(now, nil); !ok {
				break
			}
		}
		conn.NextTimeout()
		conn.Stats()
	}
	conn.Save(now, nil)
}

// FuzzRestore feeds records to Restore, beginning with those of real sessions, and drives what comes of them.
func FuzzRestore(f *testing.F, config Config) {
	c := config.withDefaults()
	c.twins, c.replaces = true, true
	server, _ := c.New(1)
	protocol := server
	simulate(f, "seeds", func(r *report) {
		p, _ := trafficPair(r, c, weather{net: foul.net, excuse: true}, c.New, c.modes, 1)
		for _, s := range []*side{p.client, p.server} {
			for _, record := range s.saving.records[:min(len(s.saving.records), fuzzedRecords)] {
				f.Add(record, uint64(0))
			}
		}
	})
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, record []byte, seed uint64) {
		live(t, protocol, record, now, &hostileSource{rng: rand.New(rand.NewPCG(seed, 0))})
	})
}

// BenchmarkSave measures Save and Restore of an established connection's two sides after some traffic, and the size of
// their records.
func BenchmarkSave(b *testing.B, config Config) {
	c := config.withDefaults()
	simulate(b, "session", func(r *report) {
		p := connectedPair(r, c, 1)
		if p == nil {
			return
		}
		if c.ClientPayload == nil {
			p.client.plan = p.compose(c.modes)
		}
		p.server.plan = p.compose(c.modes)
		p.runUntilSettled(false)
		server, _ := c.New(1)
		now := p.net.Now()
		saved := p.server.conn.Save(now, nil)
		b.Run("save", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				saved = p.server.conn.Save(now, saved[:0])
			}
			b.ReportMetric(float64(len(saved)), "B/record")
		})
		b.Run("restore", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := server.Restore(now, nil, saved); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
