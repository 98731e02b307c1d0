package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

func pingCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "ping",
		Usage:       "ask a game server whether it is there, by its own protocol",
		Description: examples("tidegate ping 127.0.0.1:7777", "tidegate ping --protocol raknet --json 127.0.0.1:7777"),
		ArgsUsage:   "HOST:PORT",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "protocol", Aliases: []string{"p"}, Value: "any", Usage: "ask by `NAME`: raknet, riptide-2.2 or any"},
			&cli.DurationFlag{Name: "timeout", Aliases: []string{"t"}, Value: 3 * time.Second, Usage: "wait `DURATION` for an answer"},
			&cli.BoolFlag{Name: "json", Usage: "print the answer as JSON"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return misuse(errors.New("ping wants one HOST:PORT, after its flags"))
			}
			ask, ok := askers[c.String("protocol")]
			if !ok {
				return misuse(fmt.Errorf("--protocol %q: want raknet, riptide-2.2 or any", c.String("protocol")))
			}
			if _, _, err := net.SplitHostPort(c.Args().First()); err != nil {
				return misuse(fmt.Errorf(`%q: want HOST:PORT, for example "127.0.0.1:7777"`, c.Args().First()))
			}
			found, err := ping(c.Context, c.Args().First(), ask, c.Duration("timeout"))
			for _, a := range found {
				if err := a.print(c); err != nil {
					return err
				}
			}
			return err
		},
	})
}

// answer is what a server said.
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
	fmt.Fprintf(c.App.Writer, "%s: %s, %.2f ms, %s\n", a.Address, a.Protocol, a.RTT, a.Text)
	return nil
}

// asker is one way to ask over a connected socket that has a read deadline.
type asker func(conn net.Conn, answers chan<- answer)

var askers = map[string][]asker{
	"any":         {askRakNet, askRiptide},
	"raknet":      {askRakNet},
	"riptide-2.2": {askRiptide},
}

// together is how long after a first answer others are waited for: a port may speak several protocols.
const together = decision + 100*time.Millisecond

// ping asks in every given way at once and returns the answers, at least one, by protocol.
func ping(ctx context.Context, address string, ask []asker, timeout time.Duration) ([]answer, error) {
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers := make(chan answer, len(ask))
	for _, one := range ask {
		conn, err := new(net.Dialer).DialContext(asking, "udp", address)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		go one(conn, answers)
	}
	var found []answer
	over := asking.Done()
	for len(found) < len(ask) {
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

// again is how often a question is repeated: a datagram may be lost.
const again = 500 * time.Millisecond

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
