// Package top follows a running proxy's figures, for operators and the demo. Watch gives the samples of each second,
// and Line makes a line of one.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/admin"
	"tidegate/internal/pause"
)

const (
	// mostMissed is how many attempts in a row may fail. A proxy that is upgraded or starts again does not answer.
	mostMissed = 15
	retryTime  = time.Second
)

var (
	errEnough = errors.New("all samples were taken")
	errEnded  = errors.New("the proxy has ended the stream of its figures")
)

// Watch gives take a sample each second, the first one after a second, until count samples were taken or ctx is done. 0
// means all. Each sample has rates.
func Watch(ctx context.Context, client *admin.Client, count int, take func(*admin.Live) error) error {
	n, heard := 0, false
	for missed := 0; ; missed++ {
		var stop error
		failed := client.Watch(ctx, func(l *admin.Live) error {
			heard, missed = true, 0
			if l.Over > 0 {
				n++
				if stop = take(l); stop == nil && n == count {
					stop = errEnough
				}
			}
			return stop
		})
		switch {
		case errors.Is(stop, errEnough), stop == nil && ctx.Err() != nil:
			return nil
		case stop != nil:
			return stop
		case !heard || missed >= mostMissed:
			return cmp.Or(failed, errEnded)
		}
		pause.For(ctx, retryTime)
	}
}

// Heading is the heading of the lines that Line returns.
const Heading = `              round trip, ms     to server     to client      resent/s
time     open  client server  msg/s   kB/s  msg/s   kB/s  client server drops/s
`

// Line returns a sample as a line of text.
func Line(l *admin.Live, since time.Time) string {
	kilo := func(n float64) string { return fmt.Sprintf("%.1f", n/1e3) }
	dropped := 0.0
	for _, d := range l.Drops {
		dropped += d.Rate
	}
	return fmt.Sprintf("%-8s%5d%8s%7s%7.0f%7s%7.0f%7s%8.1f%7.1f%8.1f\n", l.At.Sub(since).Round(time.Second), l.Sessions,
		milliseconds(l.Client.RTTMean), milliseconds(l.Server.RTTMean), l.FromClients.Count, kilo(l.FromClients.Bytes),
		l.FromServers.Count, kilo(l.FromServers.Bytes), l.Client.Resent, l.Server.Resent, dropped)
}

// milliseconds formats a round trip; "-" if it is unknown.
func milliseconds(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}
