package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
)

func pingCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "ping",
		Usage:       "check whether a game server answers in its own protocol",
		Description: examples("tidegate ping 127.0.0.1:7777", "tidegate ping --protocol raknet --json 127.0.0.1:7777"),
		ArgsUsage:   "HOST:PORT",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name:    "protocol",
				Aliases: []string{"p"},
				Value:   "any",
				Usage:   "use the protocol `NAME`: raknet, riptide-2.2 or any",
			},
			&cli.DurationFlag{
				Name:    "timeout",
				Aliases: []string{"t"},
				Value:   3 * time.Second,
				Usage:   "wait `DURATION` for an answer",
			},
			&cli.BoolFlag{Name: "json", Usage: "print the answer as JSON"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return misuse(errors.New("want one HOST:PORT after the flags"))
			}
			pings, ok := probes[c.String("protocol")]
			if !ok {
				return misuse(fmt.Errorf("--protocol %q: want raknet, riptide-2.2 or any", c.String("protocol")))
			}
			if _, _, err := net.SplitHostPort(c.Args().First()); err != nil {
				return misuse(fmt.Errorf(`%q: want HOST:PORT, for example "127.0.0.1:7777"`, c.Args().First()))
			}
			found, err := ping(c.Context, c.Args().First(), pings, c.Duration("timeout"))
			for _, a := range found {
				if err := a.print(c); err != nil {
					return err
				}
			}
			return err
		},
	})
}

// answer is the answer of a server.
type answer struct {
	Address  string  `json:"address"`
	Protocol string  `json:"protocol"`
	RTT      float64 `json:"rtt_ms"`
	Text     string  `json:"text"`
}

func (a answer) print(c *cli.Context) error {
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(a)
	}
	fmt.Fprintf(c.App.Writer, "%s: %s, %.2f ms, %s\n", a.Address, a.Protocol, a.RTT, printable(a.Text))
	return nil
}

// probe pings a server in one protocol until it answers or ctx is done. It gives at most one answer.
type probe func(ctx context.Context, to netip.AddrPort, answers chan<- answer)

// probes are the probes for each value of --protocol.
var probes = map[string][]probe{
	"any":         {pingRakNet, pingRiptide},
	"raknet":      {pingRakNet},
	"riptide-2.2": {pingRiptide},
}

// together is the time to wait for further answers after the first one: a port may speak several protocols.
const together = decisionTime + 100*time.Millisecond

// ping runs several probes at once and returns their answers in the order of the protocols' names.
func ping(ctx context.Context, address string, pings []probe, timeout time.Duration) ([]answer, error) {
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to, err := resolve(asking, address)
	if err != nil {
		return nil, err
	}
	answers := make(chan answer, len(pings))
	var running sync.WaitGroup
	defer running.Wait() // a probe says goodbye to the server
	defer cancel()
	for _, probe := range pings {
		running.Go(func() { probe(asking, to, answers) })
	}
	var found []answer
	over := asking.Done()
	for len(found) < len(pings) {
		select {
		case a := <-answers:
			a.Address = address
			found = append(found, a)
			soon, cancel := context.WithTimeout(ctx, together)
			defer cancel()
			over = soon.Done()
			continue
		case <-over:
		}
		break
	}
	switch {
	case len(found) > 0:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ping %s: interrupted before an answer", address)
	default:
		return nil, fmt.Errorf("ping %s: no answer in %s", address, timeout)
	}
	slices.SortFunc(found, func(a, b answer) int { return strings.Compare(a.Protocol, b.Protocol) })
	return found, nil
}

// resolve returns the address of a UDP socket.
func resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	to := conn.RemoteAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), conn.Close()
}

// pingInterval is the time between two pings of one probe: a datagram may be lost.
const pingInterval = 500 * time.Millisecond

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
