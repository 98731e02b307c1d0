package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/tools/bench/process"
)

// Bounds of Bulk. go-raknet takes messages of at most 512 parts.
const (
	maxMessages    = 100_000
	maxMessageSize = 500_000
	maxBulk        = 1 << 30 // bytes
)

// bulkPatience is the time after which a transfer that does not end has failed.
const bulkPatience = 2 * time.Minute

// Bulk measures how long many large messages take from a game server to one client, as the chunks of a world do when a
// player joins, over a path with a delay and losses. Server and client are go-raknet's. A transfer goes directly,
// through Tidegate, through a proxy on go-raknet, and by the program Options.Peer. Subjects take turns, and each round
// loses other datagrams.
func Bulk(o *Options) (*BulkResult, error) {
	size, window := o.Size, o.Window
	o.Sessions, o.Size, o.Window = 1, minSize, time.Second
	err := o.check()
	o.Size, o.Window = size, window
	switch {
	case err != nil:
		return nil, err
	case o.Messages < 1 || o.Messages > maxMessages || size < 1 || size > maxMessageSize || o.Messages*size > maxBulk:
		return nil, fmt.Errorf("%d messages of %d bytes: %w: want 1 to %d of at most %d, and %d bytes in all", o.Messages,
			size, ErrOptions, maxMessages, maxMessageSize, maxBulk)
	case o.Rate < 0:
		return nil, fmt.Errorf("%d messages a second: %w", o.Rate, ErrOptions)
	}
	o.From, o.To = bedrock, bedrock
	b := &bulkBench{Options: o}
	subjects := b.subjects()
	measured := make([]bulkMeasured, len(subjects))
	var missing []string
	for i := range o.Rounds {
		for k, s := range subjects {
			if len(measured[k].rounds)+measured[k].failed < i {
				continue // it could not be measured in an earlier round
			}
			o.progress("round %d of %d: %s", i+1, o.Rounds, s.name)
			r, err := s.run(uint64(i + 1))
			switch {
			case o.Context.Err() != nil:
				return nil, context.Cause(o.Context)
			case errors.Is(err, errBulk):
				measured[k].failed++
				o.progress("%s: %v", s.name, err)
			case err != nil:
				missing = append(missing, fmt.Sprintf("%s, from round %d on: %v", s.name, i+1, err))
			default:
				measured[k].rounds = append(measured[k].rounds, r)
			}
		}
	}
	return b.conclude(subjects, measured, missing), nil
}

// errBulk is the error of a transfer that did not end.
var errBulk = errors.New("the transfer has failed")

// bulkBench is a running measurement.
type bulkBench struct{ *Options }

// bulkSubject is a way to transfer the messages. Its run makes a transfer whose path has the given seed.
type bulkSubject struct {
	name string
	run  func(seed uint64) (bulkRound, error)
}

// bulkRound is one transfer.
type bulkRound struct {
	took      time.Duration // from the first message until the last one has arrived
	datagrams uint64        // to the client, on the path
	again     uint64        // those of them that repeat a message
}

// bulkMeasured has the transfers of a subject.
type bulkMeasured struct {
	rounds []bulkRound
	failed int
}

func (b *bulkBench) subjects() []bulkSubject {
	kinds := append([]kind{{"direct", startDirect, alwaysInstalled}}, terminatingKinds(b.Options)...)
	var all []bulkSubject
	for _, k := range kinds {
		if k.name != "tidegate-source-prefix" { // it is the same for one session
			all = append(all, bulkSubject{k.name, func(seed uint64) (bulkRound, error) { return b.transfer(k, seed) }})
		}
	}
	if b.Peer != "" {
		all = append(all, bulkSubject{"quic", b.transferByPeer})
	}
	return all
}

// transfer makes a transfer from a go-raknet server through a subject.
func (b *bulkBench) transfer(k kind, seed uint64) (r bulkRound, err error) {
	game, err := raknet.Listen(netip.AddrPortFrom(process.Loopback, 0).String())
	if err != nil {
		return r, err
	}
	defer func() { _ = game.Close() }()
	dir, err := os.MkdirTemp("", "tidegate-bench")
	if err != nil {
		return r, err
	}
	s, err := k.start(b.Options, netip.MustParseAddrPort(game.Addr().String()), dir)
	if err != nil {
		_ = os.RemoveAll(dir) // the earlier error matters more
		return r, err
	}
	s.dir = dir
	defer s.stop()
	path, err := startBulkPath(b.Options, s.Addr, seed)
	if err != nil {
		return r, err
	}
	defer path.stop()
	ctx, cancel := context.WithTimeout(b.Context, bulkPatience)
	defer cancel()
	client, server, err := joinBulk(ctx, game, path.addr())
	if err != nil {
		return r, err
	}
	defer func() { _, _ = client.Close(), server.Close() }()
	path.begin()
	began := time.Now()
	go b.write(ctx, server, began)
	if err := read(ctx, client, b.Messages); err != nil {
		return r, fmt.Errorf("%w after %v: %w", errBulk, time.Since(began).Round(time.Second), err)
	}
	r.took = time.Since(began)
	r.datagrams, r.again = path.counts()
	return r, nil
}

// settleTime is the time for the last messages of a handshake.
const settleTime = 300 * time.Millisecond

// joinBulk connects a client, and returns both ends.
func joinBulk(ctx context.Context, game *raknet.Listener, at netip.AddrPort) (client *raknet.Conn, server net.Conn,
	err error) {
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := game.Accept(); err == nil {
			accepted <- conn
		}
	}()
	if client, err = raknet.DialContext(ctx, at.String()); err != nil {
		return nil, nil, err
	}
	select {
	case server = <-accepted:
		time.Sleep(settleTime)
		return client, server, nil
	case <-ctx.Done():
		_ = client.Close()
		return nil, nil, context.Cause(ctx)
	}
}

// write sends the messages: at once, or on the timetable of Options.Rate.
func (b *bulkBench) write(ctx context.Context, to net.Conn, began time.Time) {
	message := make([]byte, b.Size)
	message[0] = gameByte
	for i := range b.Messages {
		if b.Rate > 0 {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(b.Rate))
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
			}
		}
		if _, err := to.Write(message); err != nil || ctx.Err() != nil {
			return // the client shows the error
		}
	}
}

// gameByte is the first byte of messages of games on go-raknet.
const gameByte = 0xfe

// read takes a number of messages.
func read(ctx context.Context, client *raknet.Conn, messages int) error {
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	for range messages {
		if _, err := client.ReadPacket(); err != nil {
			return err
		}
	}
	return nil
}

// conclude makes the result of all rounds.
func (b *bulkBench) conclude(subjects []bulkSubject, all []bulkMeasured, missing []string) *BulkResult {
	result := &BulkResult{
		Messages: b.Messages, Size: b.Size, Rate: b.Rate, Path: b.Path, PathLoss: b.Loss, Rounds: b.Rounds,
		Machine: process.Machine(), Missing: missing,
	}
	direct := 0.0
	for i, m := range all {
		if len(m.rounds)+m.failed == 0 {
			continue
		}
		f := BulkFigures{Name: subjects[i].name, Failed: m.failed}
		f.Seconds = medianOf(m.rounds, func(r bulkRound) float64 { return r.took.Seconds() })
		f.Datagrams = medianOf(m.rounds, func(r bulkRound) float64 { return float64(r.datagrams) })
		f.Again = medianOf(m.rounds, func(r bulkRound) float64 { return float64(r.again) })
		for _, r := range m.rounds {
			keepLeast(&f.Least, r.took.Seconds())
			f.Most = max(f.Most, r.took.Seconds())
		}
		f.PerSecond = quotient(float64(b.Messages*b.Size), f.Seconds)
		if f.Name == "direct" {
			direct = f.Seconds
		} else {
			f.Ratio = quotient(f.Seconds, direct)
		}
		result.Subjects = append(result.Subjects, f)
	}
	return result
}

func medianOf(rounds []bulkRound, figure func(bulkRound) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	return median(values)
}
