package codectest

import (
	"slices"

	"tidegate/codec"
)

// checkAnnouncements announces clients that join and leave, in bad network conditions. Each announcement must arrive
// once.
func checkAnnouncements(t tb, c *Config) {
	if !c.Announces {
		simulate(t, "no announcements", func(r *report) {
			if p := connectedPair(r, c, 1); p != nil {
				p.refusesAnnouncements(p.server)
			}
		})
		return
	}
	simulateSeeds(t, foulSeeds, func(r *report, seed uint64) {
		p := connectedPair(r, c, seed)
		if p == nil {
			return
		}
		p.refusesAnnouncements(p.client)
		p.net.SetWeather(foul.net)
		want := []uint16{1001, 1002, 65535}
		for _, id := range want {
			for _, kind := range []codec.EventKind{codec.Joined, codec.Left} {
				if err := p.server.conn.Announce(p.net.Now(), kind, id); err != nil {
					r.Errorf("server: Announce %v: %v", kind, err)
				}
			}
		}
		p.net.Run(quiet)
		for _, heard := range [][]uint16{p.client.joined, p.client.left} {
			if slices.Sort(heard); !slices.Equal(heard, want) {
				r.Errorf("client: heard of %v joining or leaving, want %v", heard, want)
			}
		}
	})
}

// refusesAnnouncements checks that a side without announcements returns ErrMode.
func (p *pair) refusesAnnouncements(s *side) {
	if err := s.conn.Announce(p.net.Now(), codec.Joined, 1); !isMode(err) {
		p.r.Errorf("%s: Announce: %v, want ErrMode", s.name, err)
	}
}
