// Package demo shows Tidegate at work, for real and in one process: players of one protocol play on a server of another
// through the proxy, over loopback sockets, and every message is accounted for. The main job is Riptide on RakNet; any
// other pair (pair.go) is held to what its two wires can promise (promise.go).
//
// The main job's server (gameserver.go) is written on go-raknet, a RakNet implementation that is not ours; the others
// (codecserver.go) on our own codecs. They echo what they read. The clients (crowd.go, client.go) send numbered,
// checksummed messages (probe.go) in the form that their protocol wants (form.go) and keep the books (ledger.go). A link
// (link.go) between them and the proxy loses datagrams, if asked to. Start with Run, which sets the stage (stage.go).
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"tidegate/proxy"
)

// Bounds and defaults of Options.
const (
	maxClients     = 500
	maxRate        = 1000
	maxLoss        = 0.5
	defaultClients = 4
	defaultRate    = 20
)

// Options are what a demo is to be like.
type Options struct {
	Pair    Pair          // the main job's if zero
	For     time.Duration // how long the clients send, once all are there; 0 means until the context is done
	Clients int           // 1 to 500; 4 if zero
	Loss    float64       // share of datagrams lost between clients and proxy, each way, 0 to 0.5
	Rate    int           // reliable messages a second and client, and as many unreliable ones; 1 to 1000, 20 if zero
	// Settings makes the proxy's settings, with one listener at listen and one upstream server.
	Settings func(listen, server netip.AddrPort) (*proxy.Settings, error)
	Out      io.Writer      // where the table and the summary go
	Terminal bool           // Out is a terminal, an *os.File: the table is redrawn in place; else it gets a line a second
	Log      zerolog.Logger // the proxy's
}

// Run plays the demo until its time is over or ctx is done; both end in the same order: the clients stop sending, wait
// for what is under way, say goodbye, then the proxy stops, then the server. It writes a summary to o.Out and returns
// it. An error means that the demo could not be set up or driven; whether it passed is the Result's to tell.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, err
	}
	s, err := setUp(&o)
	if err != nil {
		return Result{}, err
	}
	var screen func() screen
	if o.Terminal {
		screen = screenOf(o.Out)
	}
	v := newView(o.Out, screen, time.Now())
	v.introduce(s.introduction(&o))
	driveErr := s.play(ctx, &o, v)
	result, err := s.finish()
	if err = errors.Join(driveErr, err); err != nil {
		return result, err
	}
	v.conclude(result.Summary())
	return result, nil
}

// checked fills in the defaults, or says what cannot be.
func (o Options) checked() (Options, error) {
	if o.Pair == (Pair{}) {
		o.Pair = MainPair()
	}
	if o.Clients == 0 {
		o.Clients = defaultClients
	}
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	switch {
	case o.Clients < 1 || o.Clients > maxClients:
		return o, fmt.Errorf("%d clients: want 1 to %d", o.Clients, maxClients)
	case o.Rate < 1 || o.Rate > maxRate:
		return o, fmt.Errorf("rate %d: want 1 to %d", o.Rate, maxRate)
	case !(o.Loss >= 0 && o.Loss <= maxLoss):
		return o, fmt.Errorf("loss %v: want 0 to %v", o.Loss, maxLoss)
	case o.Loss > 0 && o.Pair.OverTCP():
		return o, errors.New("loss over TCP: want 0, since TCP loses nothing")
	case o.For < 0:
		return o, fmt.Errorf("duration %v: want 0 or more", o.For)
	}
	return o, nil
}
