package main

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

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
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
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers := make(chan answer, len(ask))
	for _, one := range ask {
		conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		go one(conn, answers)
	}
	var found []answer
	over := ctx.Done()
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
	if len(found) == 0 {
		return nil, fmt.Errorf("ping %s: no answer in %s", address, timeout)
	}
	slices.SortFunc(found, func(a, b answer) int { return strings.Compare(a.Protocol, b.Protocol) })
	return found, nil
}

// again is how often a question is repeated: a datagram may be lost.
const again = 500 * time.Millisecond

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

// askRiptide asks to join, which is the only question a Riptide server answers, and leaves at once. A server that has a
// say in who joins first answers that it is deciding; its decision is waited for.
func askRiptide(conn net.Conn, answers chan<- answer) {
	to := conn.RemoteAddr().(*net.UDPAddr).AddrPort()
	joining := riptide.New(riptide.Options{}).Dial(time.Now(), to, codec.Hello{})
	defer func() {
		joining.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
		transmit(conn, joining)
	}()
	found := answer{Protocol: "riptide-2.2", Text: "there, and deciding whom to let in"}
	decideBy := time.Time{} // set by the first answer
	var b [codec.MaxDatagram]byte
	for {
		asked := time.Now() // it asks now, or when its deadline comes
		transmit(conn, joining)
		deadline := joining.NextTimeout()
		if !decideBy.IsZero() && decideBy.Before(deadline) {
			deadline = decideBy
		}
		_ = conn.SetReadDeadline(deadline)
		n, err := conn.Read(b[:])
		now := time.Now()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case isTimeout(err) && !decideBy.IsZero() && !now.Before(decideBy):
			answers <- found
			return
		case isTimeout(err):
			joining.Advance(now)
		case err == nil && joining.Receive(now, b[:n]) == nil && decideBy.IsZero():
			decideBy, found.RTT = now.Add(decision), milliseconds(now.Sub(asked))
		}
		ev, decided := joining.Poll()
		switch {
		case !decided:
		case ev.Kind == codec.Disconnected && decideBy.IsZero():
			return // it has asked often enough
		default:
			found.Text = verdict(ev)
			answers <- found
			return
		}
	}
}

// decision is how long a Riptide server may take to decide.
const decision = 500 * time.Millisecond

// verdict is what a Riptide server's decision means for a player.
func verdict(ev codec.Event) string {
	if ev.Kind == codec.Disconnected {
		return "there, and refuses: " + ev.Reason.String()
	}
	return "there, and lets players in"
}

// transmit writes what a connection has to say.
func transmit(conn net.Conn, c codec.Conn) {
	for {
		datagram, ok := c.Transmit(time.Now(), make([]byte, 0, codec.MaxDatagram))
		if !ok {
			return
		}
		_, _ = conn.Write(datagram) // a lost one is asked for again
	}
}

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
