package top

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/admin"
)

// mostMissed is how many samples in a row may fail. A proxy that is upgraded or starts again does not answer.
const mostMissed = 15

// Watch gives take a sample each second, the first one after a second, until count samples were taken or ctx is done. 0
// means all.
func Watch(ctx context.Context, client *admin.Client, count int, take func(*Sample) error) error {
	s := source{client: client}
	if _, err := s.read(ctx, time.Now()); err != nil {
		return err
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n, missed := 0, 0; count == 0 || n < count; {
		var now time.Time
		select {
		case <-ctx.Done():
			return nil
		case now = <-ticker.C:
		}
		sample, err := s.read(ctx, now)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if missed++; missed > mostMissed {
				return err
			}
			s.before = nil // the next sample has no rates
			continue
		}
		if err := take(&sample); err != nil {
			return err
		}
		n, missed = n+1, 0
	}
	return nil
}

// Heading is the heading of the lines that Line returns.
const Heading = `              round trip, ms     to server     to client      resent/s
time     open  client server  msg/s   kB/s  msg/s   kB/s  client server drops/s
`

// Line returns a sample as a line of text.
func (s *Sample) Line(since time.Time) string {
	kilo := func(n float64) string { return fmt.Sprintf("%.1f", n/1e3) }
	return fmt.Sprintf("%-8s%5.0f%8s%7s%7.0f%7s%7.0f%7s%8.1f%7.1f%8.1f\n", s.At.Sub(since).Round(time.Second), s.Sessions,
		milliseconds(s.Client.RTT), milliseconds(s.Server.RTT), s.FromClients.Count, kilo(s.FromClients.Bytes),
		s.FromServers.Count, kilo(s.FromServers.Bytes), s.Client.Resent, s.Server.Resent, s.Dropped)
}

// milliseconds formats a round trip; "-" if it is unknown.
func milliseconds(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}
