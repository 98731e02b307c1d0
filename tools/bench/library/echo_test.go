// Package library measures the codecs as a library beside go-raknet, each through its own API, in one process.
//
// Run it: go test -bench Echo -benchtime 20000x ./library
package library

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goraknet "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/raknet"
)

// payload is a message of a game: 64 bytes.
var payload = append([]byte{0x86}, make([]byte, 63)...)

// echoes are clients and a server in this process. Each client has one message under way: it sends the next one when
// the echo is back.
type echoes struct {
	left  atomic.Int64 // messages to send
	under atomic.Int64 // messages under way
	done  chan struct{}
	start func() // lets each client send its first message
	stop  func()
}

// next reports whether a client that has its echo sends another message.
func (e *echoes) next(first bool) bool {
	if e.left.Add(-1) >= 0 {
		if first {
			e.under.Add(1)
		}
		return true
	}
	if !first && e.under.Add(-1) == 0 {
		close(e.done)
	}
	return false
}

func BenchmarkEcho(b *testing.B) {
	for _, library := range []struct {
		name string
		open func(b *testing.B, clients int) *echoes
	}{{"tidegate", openTidegate}, {"go-raknet", openGoRakNet}} {
		for _, clients := range []struct {
			name  string
			count int
		}{{"1", 1}, {"100", 100}, {"1000", 1000}} {
			b.Run(library.name+"/clients="+clients.name, func(b *testing.B) { measure(b, library.open, clients.count) })
		}
	}
}

// measure opens connections and plays b.N echoes on them. The figures are of both ends together.
func measure(b *testing.B, open func(*testing.B, int) *echoes, clients int) {
	idle := figures()
	e := open(b, clients)
	defer e.stop()
	opened := figures()
	e.done = make(chan struct{})
	e.left.Store(int64(b.N))
	b.ResetTimer()
	e.start()
	<-e.done
	b.StopTimer()
	ended := cpu()
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	n := float64(b.N)
	b.ReportMetric(float64((ended-opened.cpu).Nanoseconds())/1e3/n, "cpu-us/echo")
	b.ReportMetric(float64(after.Mallocs-opened.mallocs)/n, "allocs/echo")
	b.ReportMetric(float64(opened.memory-idle.memory)/1024, "KiB")
	b.ReportMetric(float64(opened.goroutines-idle.goroutines)/float64(clients), "goroutines/conn")
}

// figure is what the process has used so far.
type figure struct {
	cpu        time.Duration
	memory     int64 // heap and stacks in use, in bytes
	mallocs    uint64
	goroutines int
}

func figures() figure {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return figure{cpu(), int64(m.HeapAlloc + m.StackInuse), m.Mallocs, runtime.NumGoroutine()}
}

func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // never: the arguments are valid
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func openTidegate(b *testing.B, clients int) *echoes {
	e := new(echoes)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	protocol := raknet.New(raknet.Options{})
	var server *endpoint.Endpoint[int]
	server = endpointOf(b, func(c *endpoint.Conn[int], ev *codec.Event) {
		if ev.Kind == codec.Received {
			_ = server.Send(c, ev.Message)
		}
	})
	l, err := server.Listen(protocol, netip.MustParseAddrPort("127.0.0.1:0"), endpoint.SocketOptions{})
	if err != nil {
		b.Fatal(err)
	}
	running.Go(func() { _ = server.Run(ctx) })
	message := codec.Message{Payload: payload, Mode: codec.ReliableOrdered}
	var game *endpoint.Endpoint[int]
	game = endpointOf(b, func(c *endpoint.Conn[int], ev *codec.Event) {
		if ev.Kind == codec.Received && e.next(false) {
			_ = game.Send(c, message)
		}
	})
	all := make([]*endpoint.Conn[int], clients)
	for i := range all {
		all[i], err = game.Dial(protocol, l.Addr(), codec.Hello{Identity: uint64(i + 1)}, endpoint.SocketOptions{})
		if err == nil {
			err = game.Connect(ctx, all[i])
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	running.Go(func() { _ = game.Run(ctx) })
	e.start = func() {
		game.Do(func() {
			for _, c := range all {
				if e.next(true) {
					_ = game.Send(c, message)
				}
			}
		})
	}
	e.stop = func() {
		cancel()
		running.Wait()
		_, _ = game.Close(), server.Close()
	}
	return e
}

func endpointOf(b *testing.B, event func(*endpoint.Conn[int], *codec.Event)) *endpoint.Endpoint[int] {
	b.Helper()
	e, err := endpoint.New(endpoint.Options[int]{Event: event})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func openGoRakNet(b *testing.B, clients int) *echoes {
	e := new(echoes)
	l, err := goraknet.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go echo(conn)
		}
	}()
	all := make([]*goraknet.Conn, clients)
	for i := range all {
		for range 10 { // on a busy machine an attempt may time out
			if all[i], err = goraknet.Dial(l.Addr().String()); err == nil {
				break
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	var reading sync.WaitGroup
	for _, c := range all {
		reading.Go(func() {
			for {
				if _, err := c.ReadPacket(); err != nil {
					return
				}
				if e.next(false) {
					_, _ = c.Write(payload)
				}
			}
		})
	}
	e.start = func() {
		for _, c := range all {
			if e.next(true) {
				_, _ = c.Write(payload)
			}
		}
	}
	e.stop = func() {
		for _, c := range all {
			_ = c.Close()
		}
		_ = l.Close()
		reading.Wait()
	}
	return e
}

// echo returns the messages of one connection.
func echo(c net.Conn) {
	conn := c.(*goraknet.Conn)
	for {
		b, err := conn.ReadPacket()
		if err != nil {
			return
		}
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
}
