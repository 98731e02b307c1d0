package endpoint_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/enet"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/codec/rudp"
)

// anyPort is a free port of this machine. A game server has an address such as 0.0.0.0:19132.
var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// A RakNet server that returns every message, and that answers pings. One goroutine serves all players.
func Example_server() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var server *endpoint.Endpoint[string] // with the name of each player
	server, err := endpoint.New(endpoint.Options[string]{
		Admit: func(c *endpoint.Conn[string], e *codec.Event) codec.Reason {
			if string(e.Payload) != "secret" {
				return codec.InvalidPassword
			}
			c.Value = fmt.Sprint("player ", c.Number)
			return codec.ReasonNone
		},
		Event: func(c *endpoint.Conn[string], e *codec.Event) {
			switch e.Kind {
			case codec.Received:
				_ = server.Send(c, e.Message) // a player too slow for its echo misses some
			case codec.Disconnected:
				fmt.Println(c.Value, "is gone:", e.Reason)
				stop()
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	options := raknet.Options{Pong: []byte("an echo server")}
	rand.Read(options.Seed[:]) // a stranger cannot guess the proofs of addresses then
	listener, err := server.Listen(raknet.New(options), anyPort, endpoint.SocketOptions{})
	if err != nil {
		log.Fatal(err)
	}
	go play(raknet.New(raknet.Options{}), listener.Addr())
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the text is "an echo server"
	// echo: "\x86hello"
	// player 1 is gone: closed
}

// play is a client: it pings a server, joins, sends a message and waits for its echo.
func play(p codec.Protocol, to netip.AddrPort) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, _, err := endpoint.Ping(ctx, p, to)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the text is %q\n", text)
	playing, leave := context.WithCancel(ctx)
	client, err := endpoint.New(endpoint.Options[int]{Event: func(_ *endpoint.Conn[int], e *codec.Event) {
		if e.Kind == codec.Received {
			fmt.Printf("echo: %q\n", e.Payload)
			leave()
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	c, err := client.Dial(p, to, codec.Hello{Data: []byte("secret")}, endpoint.SocketOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Connect(ctx, c); err != nil {
		log.Fatal(err)
	}
	// Games' own messages begin with a byte from 0x86 on: RakNet has the bytes below.
	message := codec.Message{Payload: []byte("\x86hello"), Mode: codec.ReliableOrdered}
	if err := client.Send(c, message); err != nil {
		log.Fatal(err)
	}
	if err := client.Run(playing); err != nil { // says goodbye
		log.Fatal(err)
	}
}

// The other protocols have the same calls. They differ in their modes of delivery, and Riptide and RUDP have no pings.
// Riptide's messages have IDs. RUDP's wire does not tell the modes apart.
func Example_protocols() {
	for _, game := range []struct {
		protocol codec.Protocol
		message  codec.Message
	}{
		{riptide.New(riptide.Options{}), codec.Message{Payload: []byte{7}, Mode: codec.Reliable, ID: 1, HasID: true}},
		{enet.New(enet.Options{}), codec.Message{Payload: []byte("move"), Mode: codec.ReliableOrdered, Channel: 2}},
		{rudp.New(rudp.Options{AppID: 9}), codec.Message{Payload: []byte("fire"), Mode: codec.Notify}},
	} {
		received := make(chan codec.Mode, 1)
		both, err := endpoint.New(endpoint.Options[int]{Event: func(c *endpoint.Conn[int], e *codec.Event) {
			if e.Kind == codec.Received && c.Listener != nil {
				received <- e.Mode
			}
		}})
		if err != nil {
			log.Fatal(err)
		}
		listener, err := both.Listen(game.protocol, anyPort, endpoint.SocketOptions{})
		if err != nil {
			log.Fatal(err)
		}
		c, err := both.Dial(game.protocol, listener.Addr(), codec.Hello{}, endpoint.SocketOptions{})
		if err != nil {
			log.Fatal(err)
		}
		if err := both.Connect(context.Background(), c); err != nil {
			log.Fatal(err)
		}
		if err := both.Send(c, game.message); err != nil {
			log.Fatal(err)
		}
		for len(received) == 0 {
			if err := both.Turn(time.Now().Add(time.Second)); err != nil {
				log.Fatal(err)
			}
		}
		fmt.Println(game.protocol.Spec().Name, <-received)
		both.Close()
	}
	// Output:
	// riptide-2.2 reliable
	// enet reliable-ordered
	// rudp unreliable-sequenced
}

// A game server with a tick takes its own turns: it waits for datagrams until the next tick is due.
func ExampleEndpoint_Turn() {
	const rate = 50 // ticks a second
	var players []*endpoint.Conn[int]
	server, err := endpoint.New(endpoint.Options[int]{Event: func(c *endpoint.Conn[int], e *codec.Event) {
		if e.Kind == codec.Connected {
			players = append(players, c)
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Listen(enet.New(enet.Options{}), anyPort, endpoint.SocketOptions{}); err != nil {
		log.Fatal(err)
	}
	next := time.Now()
	for tick := byte(1); tick <= 3; {
		if err := server.Turn(next); err != nil {
			log.Fatal(err)
		}
		if server.Now().Before(next) {
			continue // a datagram came first
		}
		for _, c := range players {
			err := server.Send(c, codec.Message{Payload: []byte{tick}, Mode: codec.UnreliableSequenced})
			if errors.Is(err, codec.ErrFull) {
				continue // the next tick has newer news
			}
		}
		fmt.Println("tick", tick)
		tick, next = tick+1, next.Add(time.Second/rate)
	}
	// Output:
	// tick 1
	// tick 2
	// tick 3
}
