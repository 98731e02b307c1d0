package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"tidegate/codec"
)

// pingInterval is the time after which Ping asks again.
const pingInterval = 300 * time.Millisecond

// Ping asks a server for the text of server lists, until it answers or ctx is done. The protocol must be a
// codec.Pinger, as RakNet's is. Ping returns the text and the round-trip time.
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
	b := make([]byte, codec.MaxDatagram)
	for ctx.Err() == nil {
		token, asked := rand.Uint64(), time.Now()
		_, _ = conn.Write(pinger.AppendPing(b[:0], token)) // like a lost datagram if it fails
		_ = conn.SetReadDeadline(asked.Add(pingInterval))
		for {
			n, err := conn.Read(b)
			if errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
				break
			}
			if err != nil { // such as an ICMP message, which anyone may forge
				continue
			}
			if got, text, err := pinger.ParsePong(b[:n]); err == nil && got == token {
				return bytes.Clone(text), time.Since(asked), nil
			}
		}
	}
	return nil, 0, fmt.Errorf("ping %s: %w", to, ctx.Err())
}
