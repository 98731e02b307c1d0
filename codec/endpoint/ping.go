package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"tidegate/codec"
)

// pingInterval is the time after which Ping asks again.
const pingInterval = 300 * time.Millisecond

// Ping asks a server for the text of server lists, until it answers, its machine refuses datagrams, or ctx is done. The
// protocol must be a codec.Pinger, as RakNet's is. Ping returns the text and the round-trip time.
func Ping(ctx context.Context, p codec.Protocol, to netip.AddrPort) (text []byte, rtt time.Duration, err error) {
	pinger, ok := p.(codec.Pinger)
	if !ok {
		return nil, 0, fmt.Errorf("ping %s: %s: %w", to, p.Spec().Name, errors.ErrUnsupported)
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, 0, fmt.Errorf("ping: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is left to lose
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	b, start := make([]byte, codec.MaxDatagram), time.Now()
	for ctx.Err() == nil {
		asked := time.Now()
		_, _ = conn.Write(pinger.AppendPing(b[:0], uint64(asked.Sub(start)))) // like a lost datagram if it fails
		_ = conn.SetReadDeadline(asked.Add(pingInterval))
		for {
			n, err := conn.Read(b)
			switch now := time.Now(); {
			case errors.Is(err, syscall.ECONNREFUSED):
				return nil, 0, fmt.Errorf("ping %s: %w", to, err)
			case err == nil:
				// A pong repeats the token of its ping. If a server invents one, the latest ping counts.
				token, text, err := pinger.ParsePong(b[:n])
				if rtt = now.Sub(start) - time.Duration(token); rtt < 0 || rtt > now.Sub(start) {
					rtt = now.Sub(asked)
				}
				if err == nil {
					return bytes.Clone(text), rtt, nil
				}
				continue
			case !errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
				continue // other errors may pass
			}
			break
		}
	}
	return nil, 0, fmt.Errorf("ping %s: %w", to, ctx.Err())
}
