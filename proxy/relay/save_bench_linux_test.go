package relay

import (
	"net/netip"
	"testing"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// BenchmarkExport measures the export of an established session.
func BenchmarkExport(b *testing.B) {
	eachCrowd(b, func(b *testing.B, c *crowdNet, live float64) {
		x := BeginExport(c.relay, c.now, false, nil)
		var e *Entry
		for e = range c.relay.table.All {
			break
		}
		var record []byte
		for b.Loop() {
			record = x.session(e, record[:0])
		}
		b.ReportMetric(float64(len(record)), "B/session")
		b.ReportMetric(live, "live-B/session")
	})
}

// BenchmarkImport measures the import of a session, without its connections and with them.
func BenchmarkImport(b *testing.B) {
	for _, whole := range []bool{false, true} {
		name := "first"
		if whole {
			name = "whole"
		}
		b.Run(name, func(b *testing.B) {
			eachCrowd(b, func(b *testing.B, c *crowdNet, _ float64) { measureImport(b, c, whole) })
		})
	}
}

// BenchmarkImportKept measures the import of a session that is as the pre-copy has it.
func BenchmarkImportKept(b *testing.B) {
	eachCrowd(b, func(b *testing.B, c *crowdNet, _ float64) {
		c.relay.precopy.start(nil)
		batch := copyPass(c.relay, c.now)
		_, all := exportAll(c.relay, c.now)
		n := 0
		var i *Importer
		for b.Loop() {
			if n%len(all) == 0 {
				b.StopTimer()
				r := New(c.relay.settings, Options{Log: zerolog.Nop()}, c, c.now)
				r.Attach(0, c.listener)
				i = BeginImport(r, c.now)
				takeCopies(b, i, 1, []copiedPass{batch})
				b.StartTimer()
			}
			if err := all[n%len(all)].enter(i); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
}

func measureImport(b *testing.B, c *crowdNet, whole bool) {
	_, all := exportAll(c.relay, c.now)
	n := 0
	var i *Importer
	for b.Loop() {
		if n%len(all) == 0 {
			b.StopTimer()
			r := New(c.relay.settings, Options{Log: zerolog.Nop()}, c, c.now)
			r.Attach(0, c.listener)
			i = BeginImport(r, c.now)
			b.StartTimer()
		}
		session := all[n%len(all)]
		n++
		if err := i.session(session.bytes, session.sockets); err != nil {
			b.Fatal(err)
		}
		if whole {
			for e := range i.relay.table.Backward {
				complete(i.relay, c.now, e)
				break
			}
		}
	}
}

// savedSessions is the number of sessions by which saved ones are measured.
const savedSessions = 500

// eachCrowd runs a benchmark with idle sessions of each protocol, and with relayed ones. live is the memory of one.
func eachCrowd(b *testing.B, f func(b *testing.B, c *crowdNet, live float64)) {
	own := Transport{Sources: netip.MustParsePrefix("127.64.0.0/10")}
	run := func(name string, protocol codec.Protocol, mode policy.Mode) {
		b.Run(name, func(b *testing.B) {
			c := newCrowdNet(b, own, mode, protocol)
			heap := heapInUse()
			if mode == policy.ModeTerminate {
				c.terminated(crowd(savedSessions))
			} else {
				for _, from := range crowd(savedSessions) {
					c.relayed(from)
				}
			}
			f(b, c, float64(heapInUse()-heap)/savedSessions)
		})
	}
	for _, p := range udpMembers(noRType) {
		run(p.Spec().Name, p.Protocol, policy.ModeTerminate)
	}
	run("relayed", Any, policy.ModeRelay)
}
