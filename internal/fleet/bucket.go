package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// markerTime is the time for which a bucket remembers that a record has ended.
const markerTime = time.Hour

// content is the kind of the records of a bucket.
type content struct {
	name      string
	maxBucket int64 // bytes
	maxRecord int32 // bytes
}

var (
	banBucket   = content{"bans", 512 << 20, maxRecord}
	drainBucket = content{"servers", 32 << 20, maxDrainRecord}
)

// options returns the options of the connection to NATS, which repairs itself for as long as it is open.
func (f *Fleet) options(server *embedded) ([]nats.Option, error) {
	tell := func(*nats.Conn) {
		select {
		case f.news <- struct{}{}:
		default: // the last news has not been read yet
		}
	}
	options := []nats.Option{
		nats.Name("tidegate " + f.Node), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second), nats.ReconnectJitter(time.Second, time.Second),
		nats.ReconnectBufSize(-1), // changes wait in the ledger, not here
		nats.Timeout(patience), nats.PingInterval(patience), nats.MaxPingsOutstanding(2), nats.IgnoreAuthErrorAbort(),
		nats.ConnectHandler(tell), nats.ReconnectHandler(tell),
		nats.DisconnectErrHandler(func(c *nats.Conn, _ error) { tell(c) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			f.Log.Debug().Err(err).Msg("error of NATS")
		}),
	}
	if server != nil {
		return append(options, server.client()...), nil
	}
	if f.Credentials != "" {
		options = append(options, nats.UserCredentials(f.Credentials))
	}
	if f.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(f.NKey)
		if err != nil {
			return nil, fmt.Errorf("fleet.nkey: %w", err)
		}
		options = append(options, key)
	}
	if f.CA != "" {
		options = append(options, nats.RootCAs(f.CA))
	}
	if f.Certificate != "" {
		options = append(options, nats.ClientCert(f.Certificate, f.Key))
	}
	return options, nil
}

// bucket is a JetStream bucket of a fleet, while one connection to it works.
type bucket struct {
	js      jetstream.JetStream
	stream  jetstream.Stream // behind the bucket
	prefix  string           // of the subjects of keys
	pending uint64           // records that the bucket had at the start of the reading
	updates chan *update     // the present records, then each change
	failed  chan error       // ends the reading
	close   func()
}

// update is the newest revision of a key.
type update struct {
	key      string
	value    []byte
	revision uint64
	deleted  bool // or ended
}

// updateOf returns the update in a message of the stream.
func (b *bucket) updateOf(subject string, header nats.Header, data []byte, revision uint64) *update {
	deleted := header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != ""
	return &update{strings.TrimPrefix(subject, b.prefix), data, revision, deleted}
}

// openBucket opens the bucket, or creates it, and begins to read it. The reading ends with ctx.
func openBucket(ctx context.Context, connection *nats.Conn, o *Options, c content) (*bucket, error) {
	js, err := jetstream.New(connection, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := "tidegate_" + o.Name + "_" + c.name
	_, err = js.KeyValue(opening, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(opening, jetstream.KeyValueConfig{
			Bucket: name, Description: c.name + " of Tidegate's fleet " + o.Name, History: 1,
			Storage: jetstream.FileStorage, Replicas: o.Replicas, MaxBytes: c.maxBucket, MaxValueSize: c.maxRecord,
			LimitMarkerTTL: markerTime,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	b := &bucket{
		js: js, prefix: "$KV." + name + ".", updates: make(chan *update, batch), failed: make(chan error, 1),
	}
	if b.stream, err = js.Stream(opening, "KV_"+name); err == nil {
		err = b.read(ctx, opening)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	return b, nil
}

// Times of the reading. A server that has the reader and is lost is noticed after two heartbeats.
const (
	heartbeat  = time.Second
	pullExpiry = 10 * time.Second
	readerTime = 30 * time.Second // for which NATS keeps a reader that is gone
	probeEvery = 5 * time.Second
)

var errGap = errors.New("updates of the bucket are missing")

// read begins to read the bucket.
func (b *bucket) read(ctx, opening context.Context) error {
	reader, err := b.stream.CreateConsumer(opening, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy,
		FilterSubject: b.prefix + ">", MemoryStorage: true, Replicas: 1, InactiveThreshold: readerTime,
	})
	if err != nil {
		return err
	}
	b.pending = reader.CachedInfo().NumPending
	reading, end := context.WithCancel(ctx)
	last := uint64(0)
	consuming, err := reader.Consume(func(m jetstream.Msg) {
		at, err := m.Metadata()
		if err != nil || at.Sequence.Consumer != last+1 {
			b.fail(errGap)
			return
		}
		last++
		select {
		case b.updates <- b.updateOf(m.Subject(), m.Headers(), m.Data(), at.Sequence.Stream):
		case <-reading.Done():
		}
	}, jetstream.PullHeartbeat(heartbeat), jetstream.PullExpiry(pullExpiry),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { b.fail(err) }))
	if err != nil {
		end()
		return err
	}
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		b.probe(reading)
	}()
	b.close = func() {
		end()
		consuming.Stop()
		<-probed
	}
	return nil
}

// probe ends the reading if the bucket has no leader for this node. The reader may be in the node's own server: it gets
// heartbeats also if that server is cut off from all others.
func (b *bucket) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, patience)
		_, err := b.stream.Info(asking)
		if cancel(); err != nil {
			b.fail(fmt.Errorf("leader of the bucket: %w", err))
			return
		}
	}
}

// fail ends the reading with an error.
func (b *bucket) fail(err error) {
	select {
	case b.failed <- err:
	default: // it ends anyway
	}
}

// storable is a record that a bucket can have.
type storable interface {
	key() string
	format() ([]byte, error)
	timeToLive(now time.Time) time.Duration // 0: forever
}

// write is a record on its way to the bucket.
type write struct {
	record   storable
	revision uint64 // the bucket's, before the write and then after it
	err      error  // the record is not written
}

// put writes records. Each replaces exactly the revision that it names. The error is nil if all answers have come, also
// if the bucket refuses some records because it has newer ones.
func (b *bucket) put(ctx context.Context, writes []write) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make([]jetstream.PubAckFuture, len(writes))
	for i := range writes {
		answers[i], writes[i].err = b.publish(&writes[i])
	}
	var failed error
	for i, answer := range answers {
		if answer == nil {
			failed = writes[i].err
			continue
		}
		select {
		case ack := <-answer.Ok():
			writes[i].revision = ack.Sequence
		case writes[i].err = <-answer.Err():
			if !isNewer(writes[i].err) {
				failed = writes[i].err
			}
		case <-ctx.Done():
			writes[i].err, failed = ctx.Err(), ctx.Err()
		}
	}
	return failed
}

func (b *bucket) publish(w *write) (jetstream.PubAckFuture, error) {
	value, err := w.record.format()
	if err != nil {
		return nil, err
	}
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(w.revision)}
	if ttl := w.record.timeToLive(time.Now()); ttl > 0 {
		options = append(options, jetstream.WithMsgTTL(ttl))
	}
	message := &nats.Msg{Subject: b.prefix + w.record.key(), Data: value}
	return b.js.PublishMsgAsync(message, options...)
}

// last returns the newest revision of a key.
func (b *bucket) last(ctx context.Context, key string) (*update, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := b.stream.GetLastMsgForSubject(ctx, b.prefix+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &update{key: key, deleted: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return b.updateOf(m.Subject, m.Header, m.Data, m.Sequence), nil
}

// isNewer reports whether an error says that the bucket has another revision than expected.
func isNewer(err error) bool {
	var refusal *jetstream.APIError
	return errors.As(err, &refusal) && (refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
