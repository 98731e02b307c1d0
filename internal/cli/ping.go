package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/codec/riptide"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

func pingCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "ping",
		Usage:       "check whether a game server answers in its own protocol",
		Description: examples("tidegate ping 127.0.0.1:7777", "tidegate ping 127.0.0.1:7777 --protocol raknet --json"),
		ArgsUsage:   "HOST:PORT",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "protocol", Aliases: []string{"p"}, Value: "any",
				Usage: "use the protocol `NAME`: " + strings.Join(probeNames(), ", ") +
					"; any tries riptide-2.2 if raknet has no answer, all asks for both; riptide-2.1 and minecraft work too",
			},
			durationFlag(cli.GenericFlag{
				Name: "timeout", Aliases: []string{"t"}, Usage: "wait `DURATION` for an answer",
			}, 3*time.Second),
			jsonFlag,
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return misuse(errors.New("ping: want one HOST:PORT"))
			}
			pings, ok := probesOf(c.String("protocol"))
			if !ok {
				return misuse(fmt.Errorf("--protocol %q: want one of %s", c.String("protocol"),
					strings.Join(probeNames(), ", ")))
			}
			if _, _, err := net.SplitHostPort(c.Args().First()); err != nil {
				return misuse(fmt.Errorf(`%q: want HOST:PORT, for example "127.0.0.1:7777"`, c.Args().First()))
			}
			answers := len(pings)
			if c.String("protocol") == "any" {
				answers = 1
			}
			found, err := pingFor(c.Context, c.Args().First(), pings, answers, durationOf(c, "timeout"))
			for _, a := range found {
				if err := a.print(c); err != nil {
					return err
				}
			}
			if errors.Is(err, errNoAnswer) {
				err = fmt.Errorf("%w; %s", err, hintFor(c.String("protocol")))
			}
			return err
		},
	})
}

// errNoAnswer says that a server is silent.
var errNoAnswer = errors.New("no answer")

// hintFor returns what to try after a ping in a protocol that a server did not answer.
func hintFor(protocol string) string {
	if protocol == "any" || protocol == "all" {
		return "for a server that speaks neither RakNet nor Riptide name its protocol with -p"
	}
	return "does it speak " + protocol + "? -p all asks in RakNet and in Riptide"
}

// answer is the answer of a server.
type answer struct {
	Address  string  `json:"address"`
	Protocol string  `json:"protocol"`
	RTT      float64 `json:"rtt_ms"`
	Text     string  `json:"text"`
	refused  bool    // the server's machine says that no program has the port; all else is zero
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

// probes are the probes for each value of --protocol. R-Type has none: its games notice every client that asks to join.
var probes = func() map[string][]probe {
	all := map[string][]probe{
		"any": {pingRakNet, ifSilent(joining(&riptide.Riptide22, false))},
		"all": {pingRakNet, joining(&riptide.Riptide22, false)},
	}
	for _, d := range protocols.All {
		if p := probeOf(d, false); p != nil {
			all[d.Name] = []probe{p}
		}
	}
	return all
}()

// probeOf returns the probe for a protocol, or nil if it has none.
func probeOf(d *registry.Descriptor, stream bool) probe {
	switch spec := d.Default().Spec(); {
	case spec.Closed:
		return nil
	case d.Table == "raknet" || d.Table == "bedrock":
		return pingRakNet
	}
	return joining(d, stream)
}

// probesOf returns the probes for a value of --protocol, which may be an alias of a protocol.
func probesOf(name string) ([]probe, bool) {
	if d := protocols.Find(name); d != nil {
		name = d.Name
	}
	pings, ok := probes[name]
	return pings, ok
}

func probeNames() []string { return slices.Sorted(maps.Keys(probes)) }

// silence is the time after which a server that did not answer the first probe gets the second one. A listener logs a
// datagram of a protocol that it does not speak.
const silence = 400 * time.Millisecond

// ifSilent delays a probe. An answer to another one ends it first.
func ifSilent(p probe) probe {
	return func(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
		select {
		case <-ctx.Done():
		case <-time.After(silence):
			p(ctx, to, answers)
		}
	}
}

// together is the time to wait for further answers after the first one: a port may speak several protocols.
const together = decisionTime + 100*time.Millisecond

// ping runs several probes at once and waits for the answers of all.
func ping(ctx context.Context, address string, pings []probe, timeout time.Duration) ([]answer, error) {
	return pingFor(ctx, address, pings, len(pings), timeout)
}

// pingFor runs several probes at once until a number of answers has come. It sorts them by the protocols' names.
func pingFor(ctx context.Context, address string, pings []probe, want int, timeout time.Duration) ([]answer, error) {
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
	for len(found) < want {
		select {
		case a := <-answers:
			if a.refused && len(found) == 0 {
				return nil, fmt.Errorf("ping %s: no server listens there", address)
			}
			if a.refused {
				continue
			}
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
		return nil, fmt.Errorf("ping %s: %w in %s", address, errNoAnswer, timeout)
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
