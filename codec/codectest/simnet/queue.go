package simnet

import (
	"container/heap"
	"net/netip"
	"time"
)

// garbage overwrites each datagram after its delivery.
const garbage = 0xdb

// event is a datagram on its way, or an action of the test.
type event struct {
	at       time.Time
	sequence uint64
	from, to netip.AddrPort
	datagram []byte
	action   func()
}

// queue holds the events to come, by time and then in the order in which they were pushed.
type queue struct {
	events   events
	sequence uint64
	free     [][]byte // buffers of delivered datagrams
}

func (q *queue) empty() bool   { return len(q.events) == 0 }
func (q *queue) first() *event { return &q.events[0] }
func (q *queue) pop() event    { return heap.Pop(&q.events).(event) }

func (q *queue) push(e event) {
	q.sequence++
	e.sequence = q.sequence
	heap.Push(&q.events, e)
}

// copyOf copies a datagram into one of the queue's buffers.
func (q *queue) copyOf(datagram []byte) []byte {
	var b []byte
	if last := len(q.free) - 1; last >= 0 {
		b, q.free = q.free[last], q.free[:last]
	}
	b = append(b[:0], datagram...)
	return b[:len(b):len(b)]
}

// recycle overwrites a datagram and takes back its buffer.
func (q *queue) recycle(datagram []byte) {
	for i := range datagram {
		datagram[i] = garbage
	}
	q.free = append(q.free, datagram)
}

// events is a heap.Interface.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }

func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].sequence < e[j].sequence
}

func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}
