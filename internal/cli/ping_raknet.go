package cli

import (
	"errors"
	"fmt"
	"net"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// askRakNet sends unconnected pings until one is answered.
func askRakNet(conn net.Conn, answers chan<- answer) {
	start := time.Now()
	var b [codec.MaxDatagram]byte
	for {
		asked := time.Now()
		// A lost one is asked for again.
		_, _ = conn.Write(raknet.AppendPing(b[:0], uint64(asked.Sub(start)), 1))
		pong, now, err := readPong(conn, b[:], asked.Add(again))
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue
		}
		// The pong tells when its ping was sent; a server that makes that up is timed by the last ping.
		rtt := now.Sub(start) - time.Duration(pong.Time)
		if rtt < 0 || rtt > now.Sub(start) {
			rtt = now.Sub(asked)
		}
		answers <- answer{Protocol: "raknet", RTT: milliseconds(rtt), Text: fmt.Sprintf("%q", pong.Data)}
		return
	}
}

// readPong reads until a pong or the deadline; the pong lies in b.
func readPong(conn net.Conn, b []byte, deadline time.Time) (pong raknet.Pong, now time.Time, err error) {
	_ = conn.SetReadDeadline(deadline) // a UDP socket has deadlines
	for {
		n, err := conn.Read(b)
		now = time.Now()
		if err != nil {
			if !now.Before(deadline) || isTimeout(err) || errors.Is(err, net.ErrClosed) {
				return pong, now, err
			}
			continue // the host's refusal may be of an earlier ping
		}
		if pong, err = raknet.ParsePong(b[:n]); err == nil {
			return pong, now, nil
		}
	}
}
