// Echo is a RakNet server that returns every message. It is a module of its own, as a game would be: copy the folder,
// and replace the line "replace" of go.mod.
package main

import (
	"context"
	"crypto/rand"
	"log"
	"net/netip"
	"os"
	"os/signal"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/raknet"
)

func main() {
	var server *endpoint.Endpoint[struct{}]
	server, err := endpoint.New(endpoint.Options[struct{}]{
		Event: func(c *endpoint.Conn[struct{}], e *codec.Event) {
			log.Println(c.Peer(), e.Kind)
			if e.Kind == codec.Received {
				_ = server.Send(c, e.Message) // a player too slow for its echo misses some
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	options := raknet.Options{Pong: []byte("echo")}
	rand.Read(options.Seed[:])
	at := netip.MustParseAddrPort(os.Args[1])
	if _, err := server.Listen(raknet.New(options), at, endpoint.SocketOptions{}); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
