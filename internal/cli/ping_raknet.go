package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// pingRakNet sends unconnected pings until the server answers one.
func pingRakNet(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", to.String())
	if err != nil {
		return // the caller reports that no answer came
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	start := time.Now()
	var b [codec.MaxDatagram]byte
	for {
		asked := time.Now()
		// A lost ping is repeated.
		_, _ = conn.Write(raknet.AppendPing(b[:0], uint64(asked.Sub(start)), 1))
		pong, now, err := readPong(conn, b[:], asked.Add(pingInterval))
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, syscall.ECONNREFUSED):
			answers <- answer{refused: true}
			return
		case err != nil:
			continue
		}
		// The pong repeats the time of its ping. If a server invents that time, the latest ping counts.
		rtt := now.Sub(start) - time.Duration(pong.Time)
		if rtt < 0 || rtt > now.Sub(start) {
			rtt = now.Sub(asked)
		}
		answers <- answer{Protocol: "raknet", RTT: milliseconds(rtt), Text: fmt.Sprintf("%q", pong.Data)}
		return
	}
}

// readPong reads until a pong or the deadline. The pong uses the memory of b.
func readPong(conn net.Conn, b []byte, deadline time.Time) (pong raknet.Pong, now time.Time, err error) {
	_ = conn.SetReadDeadline(deadline) // a UDP socket has deadlines
	for {
		n, err := conn.Read(b)
		now = time.Now()
		if err != nil {
			fatal := errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNREFUSED)
			if !now.Before(deadline) || isTimeout(err) || fatal {
				return pong, now, err
			}
			continue // other errors may pass
		}
		if pong, err = raknet.ParsePong(b[:n]); err == nil {
			return pong, now, nil
		}
	}
}
