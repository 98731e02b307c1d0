package demo

import (
	"fmt"
	"time"

	"tidegate/proxy/stats"
)

// figures are the figures of one session, or sums of several.
type figures struct {
	clientRTT, serverRTT       time.Duration
	toServer, toClient         rate
	clientResent, serverResent uint64
	dropped                    uint64
}

// rate is traffic per second.
type rate struct {
	messages, bytes float64
}

func rateOf(before, after stats.Traffic, interval time.Duration) rate {
	if interval <= 0 {
		return rate{}
	}
	return rate{
		messages: float64(after.Messages-before.Messages) / interval.Seconds(),
		bytes:    float64(after.Bytes-before.Bytes) / interval.Seconds(),
	}
}

// sum adds up rows. Of round trips it returns the mean of the known ones.
func sum(rows []figures) figures {
	var all figures
	var clients, servers time.Duration // with a known round trip
	for i := range rows {
		r := &rows[i]
		all.clientRTT += r.clientRTT
		all.serverRTT += r.serverRTT
		if r.clientRTT > 0 {
			clients++
		}
		if r.serverRTT > 0 {
			servers++
		}
		all.toServer.messages += r.toServer.messages
		all.toServer.bytes += r.toServer.bytes
		all.toClient.messages += r.toClient.messages
		all.toClient.bytes += r.toClient.bytes
		all.clientResent += r.clientResent
		all.serverResent += r.serverResent
		all.dropped += r.dropped
	}
	all.clientRTT /= max(clients, 1)
	all.serverRTT /= max(servers, 1)
	return all
}

// roundTrip formats a round trip for people; "-" if it is unknown.
func roundTrip(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

// size formats a number of bytes for people.
func size(n float64) string {
	switch {
	case n < 999.5:
		return fmt.Sprintf("%.0f B", n)
	case n < 999_950:
		return fmt.Sprintf("%.1f kB", n/1e3)
	}
	return fmt.Sprintf("%.1f MB", n/1e6)
}
