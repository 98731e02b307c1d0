package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"tidegate/codec/endpoint"
	"tidegate/internal/protocols"
)

// pingRakNet sends unconnected pings until the server answers one. The caller reports that no answer came.
func pingRakNet(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
	text, rtt, err := endpoint.Ping(ctx, protocols.RakNet.Default(), to)
	switch {
	case err == nil:
		answers <- answer{Protocol: "raknet", RTT: milliseconds(rtt), Text: fmt.Sprintf("%q", text)}
	case errors.Is(err, syscall.ECONNREFUSED):
		answers <- answer{refused: true}
	}
}
