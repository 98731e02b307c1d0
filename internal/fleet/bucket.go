package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/pause"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// markerTime is the time for which a bucket remembers that a record has ended.
const markerTime = time.Hour

// batch bounds the changes that wait for an answer of NATS at once.
const batch = 256

// content is the kind of the records of a bucket.
type content struct {
	what      string // for people
	name      string // in that of the bucket
	replicas  int
	maxBucket int64 // bytes
	maxRecord int32 // bytes
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
func openBucket(ctx context.Context, connection *nats.Conn, fleet string, c content) (*bucket, error) {
	js, err := jetstream.New(connection, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := "tidegate_" + fleet + "_" + c.name
	_, err = js.KeyValue(opening, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(opening, jetstream.KeyValueConfig{
			Bucket: name, Description: c.name + " of Tidegate's fleet " + fleet, History: 1,
			Storage: jetstream.FileStorage, Replicas: c.replicas, MaxBytes: c.maxBucket, MaxValueSize: c.maxRecord,
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

var (
	errGap      = errors.New("updates of the bucket are missing")
	errNoLeader = errors.New("there is none")
)

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
	probed := runs(func() { b.probe(reading) })
	b.close = func() {
		end()
		consuming.Stop()
		probed()
	}
	return nil
}

// probe ends the reading if the bucket has no leader for this node. The reader may be in the node's own server: it gets
// heartbeats also if that server is cut off from all others. A server without a leader answers, and names none.
func (b *bucket) probe(ctx context.Context) {
	for pause.For(ctx, probeEvery) {
		asking, cancel := context.WithTimeout(ctx, patience)
		info, err := b.stream.Info(asking)
		if err == nil && info.Cluster != nil && info.Cluster.Leader == "" {
			err = errNoLeader
		}
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
type write[R storable] struct {
	record   R
	revision uint64 // the bucket's, before the write and then after it
	err      error  // the record is not written
}

// put writes records. Each replaces exactly the revision that it names. The error is nil if all answers have come, also
// if the bucket refuses some records because it has newer ones.
func put[R storable](ctx context.Context, b *bucket, writes []write[R]) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make([]jetstream.PubAckFuture, len(writes))
	for i := range writes {
		answers[i], writes[i].err = b.publish(writes[i].record, writes[i].revision)
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

func (b *bucket) publish(r storable, revision uint64) (jetstream.PubAckFuture, error) {
	value, err := r.format()
	if err != nil {
		return nil, err
	}
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(revision)}
	if ttl := r.timeToLive(time.Now()); ttl > 0 {
		options = append(options, jetstream.WithMsgTTL(ttl))
	}
	return b.js.PublishMsgAsync(&nats.Msg{Subject: b.prefix + r.key(), Data: value}, options...)
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
	refusal, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
