// Package demo shows Tidegate at work in one process with real sockets. Clients of one protocol play on a server of
// another through the proxy, over loopback. Every message is accounted for. The main job is Riptide on RakNet; each
// other pair (pair.go) is held to the promise that its protocols allow (promise.go).
//
// The server of the main job (raknet_server.go) uses go-raknet, an independent RakNet implementation; other servers
// (codec_server.go) use our own codecs. They echo each message. The clients (clients.go, client.go) send numbered
// messages with checksums (probe.go) in the form of their protocol (form.go), and count the echoes (ledger.go). A link
// between clients and proxy can lose datagrams. Start with Run, which makes the stage (stage.go).
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/rs/zerolog"

	"tidegate/internal/table"
	"tidegate/internal/words"
	"tidegate/proxy/relay"
)

// Bounds and defaults of Options.
const (
	maxClients     = 500
	maxRate        = 1000
	maxLoss        = 0.5
	maxDelay       = 2 * time.Second
	defaultClients = 4
	defaultRate    = 20
)

// Options configure a demo.
type Options struct {
	Pair    Pair          // zero: the main job's pair
	For     time.Duration // sending time after all clients have joined; 0: until the context is done
	Clients int           // 1 to 500; 4 if zero
	Loss    float64       // share of datagrams lost between clients and proxy, each way, 0 to 0.5
	Delay   time.Duration // of each datagram between clients and proxy, each way, 0 to 2 s
	Rate    int           // reliable messages a second of each client, and as many unreliable ones; 1 to 1000, 20 if zero
	// Settings returns the proxy's settings, with one listener at listen and one upstream server.
	Settings func(listen, server netip.AddrPort) (*relay.Settings, error)
	Out      io.Writer      // receives the table, to which each second adds a line, and the summary
	Terminal bool           // Out is a terminal: texts are wrapped to its width
	Log      zerolog.Logger // the proxy's
}

// Run plays the demo until its time is over or ctx is done. The end has a fixed order: the clients stop sending, wait
// for messages under way and say goodbye, then the proxy stops, then the server. Run writes a summary to o.Out and
// returns it. An error means that the demo could not run; the Result tells whether it passed.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, err
	}
	show(&o, fmt.Sprintf("Starting a game server, Tidegate and %s in this process ...\n",
		words.Count(o.Clients, "client")), introWidth)
	s, err := setUp(&o)
	if err != nil {
		return Result{}, err
	}
	show(&o, s.introduction(&o), introWidth)
	driveErr := s.play(ctx, &o)
	result, err := s.finish()
	if err = errors.Join(driveErr, err); err != nil {
		return result, err
	}
	show(&o, result.Summary(), 0)
	return result, nil
}

// introWidth is the width of the introduction in columns, where Out is no terminal.
const introWidth = 80

// show writes a text, wrapped to the terminal or else to a width; 0 leaves lines whole, because programs parse them.
// It ignores errors: without a reader the demo's result still counts.
func show(o *Options, text string, width int) {
	if o.Terminal {
		width = cmp.Or(table.TerminalWidth(o.Out), introWidth)
	}
	if width > 0 {
		text = ansi.Wordwrap(text, width, "")
	}
	_, _ = io.WriteString(o.Out, text)
}

// checked fills in the defaults and checks the bounds.
func (o Options) checked() (Options, error) {
	o.Pair, o.Clients, o.Rate = cmp.Or(o.Pair, MainPair()), cmp.Or(o.Clients, defaultClients), cmp.Or(o.Rate, defaultRate)
	switch {
	case o.Clients < 1 || o.Clients > maxClients:
		return o, fmt.Errorf("%d clients: want 1 to %d", o.Clients, maxClients)
	case o.Rate < 1 || o.Rate > maxRate:
		return o, fmt.Errorf("rate %d: want 1 to %d", o.Rate, maxRate)
	case !(o.Loss >= 0 && o.Loss <= maxLoss):
		return o, fmt.Errorf("loss %v: want 0 to %v", o.Loss, maxLoss)
	case o.Loss > 0 && o.Pair.OverTCP():
		return o, errors.New("loss over TCP: want 0, since TCP loses nothing")
	case o.Delay < 0 || o.Delay > maxDelay:
		return o, fmt.Errorf("delay %v: want 0 to %v", o.Delay, maxDelay)
	case o.Delay > 0 && o.Pair.OverTCP():
		return o, errors.New("delay over TCP: want 0, since the link carries datagrams only")
	case o.For < 0:
		return o, fmt.Errorf("duration %v: want 0 or more", o.For)
	}
	return o, nil
}
