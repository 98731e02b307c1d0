// Package demo shows Tidegate at work in one process with real sockets. Clients of one protocol play on a server of
// another through the proxy, over loopback. Every message is accounted for. The main job is Riptide on RakNet; each
// other pair is held to the promise that its protocols allow (pair.go).
//
// The server of the main job uses go-raknet, an independent RakNet implementation; other servers use our own codecs
// (server.go). They echo each message. The clients (clients.go) send numbered messages with checksums in the form of
// their protocol (form.go), and count the echoes. A link between clients and proxy can lose datagrams. Start with Run,
// which makes the stage (stage.go).
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

// Options configure a demo. The command checks their bounds.
type Options struct {
	Pair    Pair
	For     time.Duration // sending time after all clients have joined
	Clients int
	Loss    float64       // share of datagrams lost between clients and proxy, each way; 0 over TCP
	Delay   time.Duration // of each datagram between clients and proxy, each way; 0 over TCP
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
