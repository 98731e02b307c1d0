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
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/pause"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/setup"
	"tidegate/internal/upstream"
)

func pingCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "ping",
		Usage: "check whether a game server answers in its own protocol",
		Description: "It asks one question. No game sees it, and the exit code is 1 if nobody can join: the server is\n" +
			"silent, refuses clients or does not decide. For a listener of the proxy that runs on this machine,\n" +
			"the question is in the listener's protocol, and down servers count. RUDP has no question without a\n" +
			"join: it wants --join.\n\n" +
			examples("tidegate ping 127.0.0.1:7777", "tidegate ping 127.0.0.1:7777 --protocol raknet --json"),
		ArgsUsage: "HOST:PORT",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "protocol", Aliases: []string{"p"}, Value: "any",
				Usage: "use the protocol `NAME`: " + strings.Join(probeNames(), ", ") +
					"; any tries riptide-2.2 if raknet has no answer, all asks for both",
			},
			durationFlag(cli.GenericFlag{
				Name: "timeout", Aliases: []string{"t"}, Usage: "wait `DURATION` for an answer",
			}, 3*time.Second),
			&cli.BoolFlag{Name: "join", Usage: "join the game and leave at once; the game sees a player come and go"},
			jsonFlag,
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return misuse(errors.New("ping: want one HOST:PORT"))
			}
			return pingOnce(c)
		},
	})
}

// pingOnce asks the server of the command line.
func pingOnce(c *cli.Context) error {
	address, protocol := c.Args().First(), c.String("protocol")
	if _, _, err := net.SplitHostPort(address); err != nil {
		return misuse(fmt.Errorf(`%q: want HOST:PORT, for example "127.0.0.1:7777"`, address))
	}
	timeout, began := durationOf(c, "timeout"), time.Now()
	spoken, deserted := listenerAt(c, address, min(timeout/2, 2*time.Second))
	if protocol == "any" {
		protocol = spoken
	}
	pings, ok := probesOf(protocol, c.Bool("join"))
	switch {
	case !ok:
		return misuse(fmt.Errorf("--protocol %q: want one of %s", protocol, strings.Join(probeNames(), ", ")))
	case len(pings) == 0:
		return misuse(fmt.Errorf("%s has no question without a join: with --join the game sees a player come and go",
			protocol))
	}
	answers := len(pings)
	if protocol == "any" {
		answers = 1
	}
	found, err := pingFor(c.Context, address, pings, answers, timeout-time.Since(began).Truncate(time.Second/10))
	for i := range found {
		if deserted && found[i].Protocol == protocols.RakNet.Name { // whose answer does not tell
			found[i].Refuses, found[i].Cause = true, "no server is up"
		}
		if err := found[i].print(c); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, errNoAnswer) && (protocol == "any" || protocol == "all"):
		return fmt.Errorf("%w; for a server that speaks neither RakNet nor Riptide name its protocol with -p", err)
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("%w; does it speak %s? -p all asks in RakNet and in Riptide", err, protocol)
	case err == nil && slices.ContainsFunc(found, func(a answer) bool { return a.Refuses }):
		return cli.Exit("", 1)
	}
	return err
}

// errNoAnswer says that a server is silent.
var errNoAnswer = errors.New("no answer")

// answer is the answer of a server.
type answer struct {
	Address  string  `json:"address"`
	Protocol string  `json:"protocol"`
	RTT      float64 `json:"rtt_ms"`
	Text     string  `json:"text"`
	Refuses  bool    `json:"refuses,omitempty"` // it answers, but a client cannot join
	Cause    string  `json:"cause,omitempty"`   // of that, if Text is not about it
	refused  bool    // the server's machine says that no program has the port; all else is zero
}

func (a answer) print(c *cli.Context) error {
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(a)
	}
	if a.Cause != "" {
		a.Text = "refuses clients: " + a.Cause
	}
	fmt.Fprintf(c.App.Writer, "%s: %s, %.2f ms, online, %s\n", a.Address, a.Protocol, a.RTT, printable(a.Text))
	return nil
}

// probe pings a server in one protocol until it answers or ctx is done. It gives at most one answer.
type probe func(ctx context.Context, to netip.AddrPort, answers chan<- answer)

// probeOf returns the probe for a protocol, or nil if it has none. With join the game may notice a client.
func probeOf(d *registry.Descriptor, stream, join bool) probe {
	switch spec := d.Default().Spec(); {
	case spec.Closed:
		return nil
	case d.Table == "raknet":
		return pingRakNet
	case !join && !hides(d):
		return nil
	}
	return joining(d, stream, join)
}

// hides reports whether a client of a protocol can ask for a place, and leave before the game sees it.
func hides(d *registry.Descriptor) bool {
	_, ok := d.Default().Dial(time.Now(), netip.AddrPortFrom(netip.IPv6Loopback(), 1), codec.Hello{}).(codec.Confirmer)
	return ok
}

// probesOf returns the probes for a value of --protocol, which may be an alias of a protocol. R-Type has none: its
// games notice every client that asks to join.
func probesOf(name string, join bool) (pings []probe, ok bool) {
	switch name {
	case "any":
		return []probe{pingRakNet, ifSilent(joining(&protocols.Riptide22, false, join))}, true
	case "all":
		return []probe{pingRakNet, joining(&protocols.Riptide22, false, join)}, true
	}
	d := protocols.Find(name)
	if d == nil || d.Default().Spec().Closed {
		return nil, false
	}
	if p := probeOf(d, false, join); p != nil {
		pings = []probe{p}
	}
	return pings, true
}

func probeNames() []string {
	names := []string{"any", "all"}
	for _, d := range protocols.All {
		if !d.Default().Spec().Closed {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return names
}

// listenerAt returns the protocol of a listener of the proxy that runs here, or "any", and whether all servers of its
// route are down.
func listenerAt(c *cli.Context, address string, patience time.Duration) (protocol string, deserted bool) {
	ctx, cancel := context.WithTimeout(c.Context, patience)
	defer cancel()
	to, err := resolve(ctx, address)
	own, _ := netio.OwnAddresses() // without a list only loopback is known
	if err != nil || !to.Addr().IsLoopback() && !slices.Contains(own, to.Addr()) {
		return "any", false
	}
	client, err := targetOf(c).client()
	if err != nil {
		return "any", false
	}
	var running admin.Configuration
	if err := client.Get(ctx, "/api/v1/config", &running); err != nil {
		return "any", false
	}
	settled, _, err := setup.Parse("", []byte(running.TOML))
	if err != nil {
		return "any", false
	}
	for i := range settled.Listeners {
		if l := &settled.Listeners[i]; l.Transport == config.UDP && hasPort(l, to) {
			return firstAsked(l.Protocols), isDeserted(ctx, client, settled, l.Route)
		}
	}
	return "any", false
}

// isDeserted reports whether all servers of a route are down.
func isDeserted(ctx context.Context, client *admin.Client, settled *config.Config, route string) bool {
	var list admin.Upstreams
	r := slices.IndexFunc(settled.Routes, func(r config.Route) bool { return r.Name == route })
	if r < 0 || client.Get(ctx, "/api/v1/upstreams", &list) != nil {
		return false
	}
	u := slices.IndexFunc(list.Upstreams, func(u admin.Upstream) bool { return u.Name == settled.Routes[r].Upstream })
	return u >= 0 && !slices.ContainsFunc(list.Upstreams[u].Servers, func(s admin.GameServer) bool {
		return s.State != upstream.Down.String()
	})
}

// firstAsked returns the first of a listener's protocols that has a question, or "any".
func firstAsked(names []string) string {
	for _, name := range names {
		if pings, _ := probesOf(name, false); len(pings) > 0 && name != "any" {
			return name
		}
	}
	return "any"
}

// hasPort reports whether a listener takes datagrams to an address of this machine.
func hasPort(l *config.Listener, to netip.AddrPort) bool {
	at := l.Address
	return (at.Addr().IsUnspecified() || at.Addr() == to.Addr()) && to.Port() >= at.Port() &&
		int(to.Port()) < int(at.Port())+at.Ports()
}

// silence is the time after which a server that did not answer the first probe gets the second one. A listener logs a
// datagram of a protocol that it does not speak.
const silence = 400 * time.Millisecond

// ifSilent delays a probe. An answer to another one ends it first.
func ifSilent(p probe) probe {
	return func(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
		if pause.For(ctx, silence) {
			p(ctx, to, answers)
		}
	}
}

// together is the time to wait for further answers after the first one: a port may speak several protocols.
const together = decisionTime + 100*time.Millisecond

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

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// decisionTime is how long a server may take to decide about a client.
const decisionTime = 2 * time.Second

// joinPing is one attempt to join a server, the only request that servers without server lists answer.
type joinPing struct {
	*endpoint.Endpoint[struct{}]
	protocol string
	sent     time.Time // of the latest datagram
	decision *codec.Event
	refused  bool // the server's machine says that no program has the port
}

// joining returns the probe that asks a server of a protocol for a place. Without join it never takes the place, so
// that no game sees it. A server that decides about clients first answers that it is deciding. The probe then waits
// for the decision. With stream it goes over TCP.
func joining(d *registry.Descriptor, stream, join bool) probe {
	return func(ctx context.Context, to netip.AddrPort, answers chan<- answer) {
		pingByJoining(ctx, d, stream, join, to, answers)
	}
}

func pingByJoining(
	ctx context.Context, d *registry.Descriptor, stream, join bool, to netip.AddrPort, answers chan<- answer,
) {
	p := &joinPing{protocol: d.Name}
	var err error
	p.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: p.event, Sent: p.note, Failed: p.fail})
	if err != nil {
		return // the caller reports that no answer came
	}
	defer func() { _ = p.Close() }()
	defer context.AfterFunc(ctx, p.Wake)()
	c, err := p.dial(d, stream, join, to)
	if err != nil {
		return
	}
	found, ok := p.run(ctx, c)
	if ok {
		answers <- found
	}
	if p.refused && !ok {
		answers <- answer{refused: true}
		return
	}
	if p.decision == nil || p.decision.Kind != codec.Connected || !join && d.Table == protocols.Riptide22.Table {
		return // the server has no connection to end; Riptide's hears no goodbye of a client that is not in yet
	}
	c.Close(p.Now(), codec.Goodbye{Reason: codec.Closed})
	p.Touch(c)
	p.Flush()
}

// dial opens the connection.
func (p *joinPing) dial(d *registry.Descriptor, stream, join bool, to netip.AddrPort,
) (*endpoint.Conn[struct{}], error) {
	protocol := d.New(d.Options(), registry.Use{Stream: stream})
	hello := codec.Hello{Tentative: !join}
	if stream {
		return p.DialStream(protocol, to, hello, endpoint.StreamOptions{Prefix: d.Stream.Prefix})
	}
	return p.Dial(protocol, to, hello, endpoint.SocketOptions{})
}

// run waits for the first datagram of the server, and then for its decision. It reports false without an answer.
func (p *joinPing) run(ctx context.Context, c *endpoint.Conn[struct{}]) (found answer, ok bool) {
	found = answer{Protocol: p.protocol, Text: "but has not decided about a client", Refuses: true}
	last, _ := ctx.Deadline()
	var until time.Time // zero before the first datagram
	for ctx.Err() == nil && !p.refused && (until.IsZero() || p.Now().Before(until)) {
		if err := p.Turn(until); err != nil {
			return found, false
		}
		if until.IsZero() && c.Stats().Received > 0 {
			until, found.RTT = earlier(p.Now().Add(decisionTime), last.Add(-pingMargin)), milliseconds(p.Now().Sub(p.sent))
		}
		if p.decision != nil {
			found.Text, found.Refuses = verdict(p.decision)
			return found, !until.IsZero() // without a datagram from the server, the connection has given up
		}
	}
	return found, !until.IsZero() && ctx.Err() == nil
}

func (p *joinPing) event(_ *endpoint.Conn[struct{}], e *codec.Event) {
	if p.decision == nil {
		p.decision = &codec.Event{Kind: e.Kind, Reason: e.Reason}
	}
}

func (p *joinPing) note(*endpoint.Conn[struct{}], []byte) { p.sent = time.Now() }

func (p *joinPing) fail(_ *endpoint.Conn[struct{}], err error) {
	p.refused = p.refused || errors.Is(err, netio.ErrRefused)
}

// verdict describes a server's decision.
func verdict(e *codec.Event) (text string, refuses bool) {
	if e.Kind == codec.Disconnected {
		return "refuses clients: " + e.Reason.String(), true
	}
	return "accepts clients", false
}

// pingMargin is the time before the end of a ping in which an undecided server is reported.
const pingMargin = 50 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

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
