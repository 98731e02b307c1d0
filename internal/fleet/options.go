package fleet

import (
	"bytes"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"tidegate/internal/regular"
	"tidegate/ratelimit"
)

// Options configure a Fleet.
type Options struct {
	Name     string   // of the fleet
	Node     string   // this node's name, unique in the fleet
	Servers  []string // URLs of NATS servers
	Replicas int      // servers that keep the bucket

	Credentials          string // path of a file with a NATS user's credentials, or the seed of an nkey; empty: none
	CA, Certificate, Key string // paths of files in PEM; empty: none

	Embedded *Embedded // a server in this process, in place of Servers
	Bans     *ratelimit.Bans
	Games    GameServers  // nil: drains and counts are not shared
	Players  Players      // nil: players are not followed
	TakeJoin func([]byte) // takes a join of another node's, for which the player may come here; nil: there are none
	Budgets  Budgets      // nil: limits are not shared
	Pending  Pending      // of a predecessor
	Held     *Held        // of this successor; nil: none
	Log      zerolog.Logger

	ReportEvery   time.Duration // at least, between two reports of the counts; 0: a quarter of a second
	SpendingEvery time.Duration // between two reports of limits; 0: a second
}

func (o *Options) identity() identity { return identity{o.Name, o.Node, o.Log} }

// connection returns the options of a connection to NATS, which repairs itself for as long as it is open. It calls tell
// after each change.
func (o *Options) connection(server *embedded, tell func()) ([]nats.Option, error) {
	changed := func(*nats.Conn) { tell() }
	options := []nats.Option{
		nats.Name("tidegate " + o.Node), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second), nats.ReconnectJitter(time.Second, time.Second),
		nats.ReconnectBufSize(-1), // changes wait in the ledger, not here
		nats.Timeout(patience), nats.PingInterval(patience), nats.MaxPingsOutstanding(2), nats.IgnoreAuthErrorAbort(),
		nats.ConnectHandler(changed), nats.ReconnectHandler(changed),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { tell() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Log.Debug().Err(err).Msg("error of NATS")
		}),
	}
	if server != nil {
		return append(options, server.client()...), nil
	}
	if o.Credentials != "" {
		user, err := credentials(o.Credentials)
		if err != nil {
			return nil, fmt.Errorf("fleet.credentials: %w", err)
		}
		options = append(options, user)
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	if o.Certificate != "" {
		options = append(options, nats.ClientCert(o.Certificate, o.Key))
	}
	return options, nil
}

// credentials returns the option for a file that NATS's tools have written: the JWT of a user with its key, or the seed
// of an nkey alone.
func credentials(file string) (nats.Option, error) {
	content, err := regular.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(content, []byte("BEGIN NATS USER JWT")) {
		return nats.UserCredentials(file), nil // read again by each connection
	}
	return nats.NkeyOptionFromSeed(file)
}

// Pending is what a successor has to know of the buckets while NATS is away. It has the bans in force of its node. From
// these it does not know which bans have been removed, and which drains an operator may end.
type Pending struct {
	Bans   []Change `json:"bans,omitempty"`   // that the bucket does not have yet
	Drains []Change `json:"drains,omitempty"` // all
	// Players are those of other nodes.
	Players []NodePlayers `json:"players,omitempty"`
}
