package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// visitTime is how long a visitor stays.
const visitTime = 50 * time.Millisecond

// manyFromOneAddress are the limits of a configuration for visitors. All have one address, and a session that has ended
// counts until its goodbyes are over.
const manyFromOneAddress = `
[limits]
sessions_per_address = 5000
[[limit]]
of = "handshakes"
per = "address"
rate = 1
verdict = "off"
[[limit]]
of = "handshakes"
per = "network"
rate = 1
verdict = "off"
`

// visitors join the games, leave by a goodbye, and come again, one of each protocol at a time. R-Type is left out: its
// players say no goodbye.
type visitors struct {
	*endpoint.Endpoint[*visitor]
	all     []*visitor
	made    uint64
	stopped atomic.Bool
	done    chan struct{}
	err     error
}

// visitor is the present visitor of a protocol.
type visitor struct {
	name   string
	to     netip.AddrPort
	conn   *endpoint.Conn[*visitor]
	leaves time.Time // zero: not connected
	left   bool
	visits int // complete ones
}

// visit lets visitors come and go until stop.
func (g *games) visit(t *testing.T) *visitors {
	t.Helper()
	v := &visitors{done: make(chan struct{})}
	var err error
	v.Endpoint, err = endpoint.New(endpoint.Options[*visitor]{Event: v.event})
	must(t, err)
	for _, k := range g.kinds {
		if k.isRelayed || strings.HasPrefix(k.pair.From(), "rtype") {
			continue
		}
		one := &visitor{name: k.pair.From(), to: k.listener}
		v.all = append(v.all, one)
		must(t, v.come(one))
	}
	go v.run()
	return v
}

// come lets a visitor join. Each visit has an identity of its own.
func (v *visitors) come(one *visitor) error {
	v.made++
	identity := 1000 + v.made
	name, isStream := strings.CutSuffix(one.name, "+tcp")
	d := protocols.Find(name)
	p := d.NewCalm(registry.Use{Stream: isStream})
	one.leaves, one.left = time.Time{}, false
	var c *endpoint.Conn[*visitor]
	var err error
	if isStream {
		c, err = v.DialStream(p, one.to, codec.Hello{Identity: identity}, endpoint.StreamOptions{Prefix: d.Stream.Prefix})
	} else {
		c, err = v.Dial(p, one.to, codec.Hello{Identity: identity}, endpoint.SocketOptions{})
	}
	if err == nil {
		c.Value, one.conn = one, c
	}
	return err
}

// run drives the visitors until stop, or until one of them has failed.
func (v *visitors) run() {
	defer close(v.done)
	for !v.stopped.Load() && v.err == nil {
		if err := v.Turn(time.Now().Add(10 * time.Millisecond)); err != nil {
			v.err = err
		}
		for _, one := range v.all {
			if !one.left && !one.leaves.IsZero() && v.Now().After(one.leaves) {
				one.left = true
				one.conn.Close(v.Now(), codec.Goodbye{Reason: codec.Closed})
				v.Touch(one.conn)
			}
		}
	}
}

func (v *visitors) event(c *endpoint.Conn[*visitor], e *codec.Event) {
	one := c.Value
	switch {
	case e.Kind == codec.Connected:
		one.leaves = v.Now().Add(visitTime)
	case e.Kind == codec.Disconnected && one.left:
		one.visits++
		v.err = v.come(one)
	case e.Kind == codec.Disconnected:
		v.err = fmt.Errorf("%s: a visitor's session ended: %v", one.name, e.Reason)
	}
}

// stop ends the visits. Each join must have succeeded, and each protocol must have had some visits.
func (v *visitors) stop(t *testing.T, least int) {
	t.Helper()
	v.stopped.Store(true)
	v.Wake()
	<-v.done
	must(t, errors.Join(v.err, v.Close()))
	for _, one := range v.all {
		t.Logf("%s: %d visits", one.name, one.visits)
		if one.visits < least {
			t.Errorf("%s: only %d visits", one.name, one.visits)
		}
	}
}
