package raknet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// stockPriority is a priority of stock RakNet. A higher one leaves first, but lower ones are not starved.
type stockPriority int

const (
	immediate stockPriority = iota
	high
	medium
	low
)

// burst is a number of ordered messages on channel 0 that a game sends at once.
type burst struct {
	count, size int
	priority    stockPriority
}

// stockQueue is a send queue that nothing has left yet.
type stockQueue struct {
	queued []stockQueued
	first  stockQueued // of the least weight
	next   [4]int      // weights
}

type stockQueued struct {
	weight   int
	priority stockPriority
	part     capsule
}

// push is GetNextWeight, and a push on the heap.
func (q *stockQueue) push(p stockPriority, part capsule) {
	step := func(p stockPriority) int { return int(p) << p }
	if len(q.queued) == 0 {
		for i := range stockPriority(4) {
			q.next[i] = step(i) + int(i)
		}
	}
	m := stockQueued{q.next[p], p, part}
	if len(q.queued) > 0 {
		if least := q.first.weight - step(q.first.priority) + int(q.first.priority); m.weight < least {
			m.weight = least + step(p) + int(p)
		}
		q.next[p] = m.weight + step(p) + 1<<p + int(p)
	}
	if len(q.queued) == 0 || m.weight < q.first.weight {
		q.first = m
	}
	q.queued = append(q.queued, m)
}

// sayAll sends bursts as stock RakNet does: it numbers a message when the game sends it, and sends by weight. A goodbye
// may follow.
func (s *stockSender) sayAll(bursts []burst, goodbye bool) (messages int) {
	var q stockQueue
	first := s.conn.(*Conn).sender.channel(0).Order // behind the handshake
	for _, b := range bursts {
		for range b.count {
			payload := slices.Repeat([]byte{0x86}, b.size)
			binary.BigEndian.PutUint32(payload[1:], uint32(messages))
			for _, part := range stockParts(first.Add(messages), payload) {
				q.push(b.priority, part)
			}
			messages++
		}
	}
	if goodbye {
		q.push(low, stockParts(first.Add(messages), []byte{idDisconnectionNotification})[0])
	}
	slices.SortStableFunc(q.queued, func(a, b stockQueued) int { return a.weight - b.weight })
	for i := range q.queued {
		c := &q.queued[i].part
		c.reliable, s.reliable = s.reliable, s.reliable.Add(1)
		s.parts = append(s.parts, c.append(nil))
	}
	return messages
}

// stockParts returns the capsules of an ordered message.
func stockParts(order Seq24, payload []byte) (parts []capsule) {
	count := (len(payload) + stockPartSize - 1) / stockPartSize
	for i := range count {
		parts = append(parts, capsule{
			mode: codec.ReliableOrdered, order: order, split: count > 1, splitCount: uint32(count), splitIndex: uint32(i),
			splitID: uint16(order), payload: payload[i*stockPartSize : min((i+1)*stockPartSize, len(payload))],
		})
	}
	return parts
}

// TestStockPriorities: messages of all priorities arrive in order from a stock peer, in both directions. Those of a
// higher priority overtake the others, and wait with us. So does a goodbye, which has the lowest priority.
func TestStockPriorities(t *testing.T) {
	for _, test := range []struct {
		bursts  []burst
		goodbye bool
	}{
		{bursts: []burst{{3000, 100, medium}, {1, 100, high}}},
		{bursts: []burst{{3000, 100, high}, {1, 100, low}}},
		{bursts: []burst{{3000, 100, low}, {3000, 100, high}}},
		{bursts: []burst{{1000, 20, low}, {10_000, 20, immediate}}},
		{bursts: []burst{{3000, 100, high}}, goodbye: true},
		{bursts: []burst{{1, 2_000_000, low}, {1, 2_000_000, medium}, {1, 2_000_000, high}, {1, 2_000_000, immediate}}},
	} {
		for _, toServer := range []bool{true, false} {
			t.Run(fmt.Sprint(test.bursts, test.goodbye, toServer), func(t *testing.T) {
				net, s, to := stockPair(t, toServer)
				messages := s.sayAll(test.bursts, test.goodbye)
				for begun := net.Now(); len(to.got) < messages && !to.over && net.Now().Sub(begun) < time.Minute; {
					net.Run(10 * ms)
				}
				for i, m := range to.got {
					if got := binary.BigEndian.Uint32(m.payload[1:]); got != uint32(i) {
						t.Fatalf("message %d came as number %d", got, i)
					}
				}
				net.Run(2 * time.Second)
				if len(to.got) != messages || to.over != test.goodbye {
					t.Errorf("%d messages of %d came, %d wait; over %v, want %v", len(to.got), messages, len(s.parts), to.over,
						test.goodbye)
				}
			})
		}
	}
}

// stockOptions are those of the default configuration.
func stockOptions() Options {
	return Options{Versions: []uint8{6}, MaxAssembly: 17 << 20, HandshakeTimeout: 10 * time.Second}
}

// stockPair connects a stock sender with our server, or our client, as a configuration makes it.
func stockPair(t *testing.T, toServer bool) (net *simnet.Net, s *stockSender, to *simNode) {
	t.Helper()
	net = simnet.New(t, 1, simnet.Weather{Latency: 100 * time.Microsecond})
	server := &simNode{self: linkServer, peer: linkClient, p: New(stockOptions())}
	client := &simNode{self: linkClient, peer: linkServer}
	client.conn = New(stockOptions()).Dial(net.Now(), linkServer, codec.Hello{})
	s, to = &stockSender{simNode: client}, server
	if !toServer {
		s, to = &stockSender{simNode: server}, client
	}
	net.Add(s, s.self)
	net.Add(to, to.self)
	net.Run(time.Second)
	if !client.connected || !server.connected {
		t.Fatal("not connected within a second")
	}
	s.start(net.Now())
	return net, s, to
}
