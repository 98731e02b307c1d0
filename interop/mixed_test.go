//go:build interop

package interop_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/lossylink"
)

// Messages of TestMixedSizes.
const (
	mixedClients  = 8
	mixedMessages = 60     // of a server to each client
	mixedLargest  = 25_000 // bytes
	mixedPace     = 10 * time.Millisecond
)

// TestMixedSizes checks the order of a server's messages of all sizes, as a game sends them when a player joins. The
// paths before and behind Tidegate are lossy, and the messages wait for them. Both ends are go-raknet.
func TestMixedSizes(t *testing.T) {
	t.Parallel()
	listener, err := raknet.ListenConfig{BlockDuration: -1}.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.PongData([]byte("MCPE;Dragonfly;")) // awaitList looks for it
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go writeMixed(conn.(*raknet.Conn))
		}
	}()
	weather := lossylink.Loss{ToClients: 0.03, ToServer: 0.03}
	host, port := lossy(t, "127.0.0.1:0", portOf(t, listener.Addr().String()), weather)
	between := runTidegate(t, minecraftRoute("terminate", host+":"+port), 1)
	awaitList(t, between.ports[udp])
	host, port = lossy(t, "127.0.0.1:0", between.ports[udp], weather)
	for i := range mixedClients {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			readMixed(t, host+":"+port)
		})
	}
}

// writeMixed sends numbered messages of any size, half of them small, at a pace that a path bears.
func writeMixed(conn *raknet.Conn) {
	sizes := rand.New(rand.NewPCG(1, 2))
	pace := time.NewTicker(mixedPace)
	defer pace.Stop()
	for i := range mixedMessages {
		<-pace.C
		size := 100
		if sizes.IntN(2) == 0 {
			size += sizes.IntN(mixedLargest)
		}
		if _, err := conn.Write(mixedMessage(i, size)); err != nil {
			return // the client reports missing messages
		}
	}
}

func mixedMessage(i, size int) []byte {
	b := bytes.Repeat([]byte{byte(i)}, size)
	b[0] = packetByte
	binary.BigEndian.PutUint16(b[1:], uint16(i))
	return b
}

// readMixed joins, and checks that all messages arrive in order and whole. Some joins of go-raknet hang where datagrams
// of the handshake are lost, also without a proxy.
func readMixed(t *testing.T, address string) {
	conn, err := raknet.DialTimeout(address, patience/4)
	for range 4 {
		if err != nil {
			conn, err = raknet.DialTimeout(address, patience/4)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	end := make(chan error, 1)
	go func() {
		for i := range mixedMessages {
			b, err := conn.ReadPacket()
			if err == nil && !bytes.Equal(b, mixedMessage(i, len(b))) {
				err = fmt.Errorf("%.3x of %d bytes", b, len(b))
			}
			if err != nil {
				end <- fmt.Errorf("message %d: %w", i, err)
				return
			}
		}
		end <- nil
	}()
	select {
	case err := <-end:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(3 * patience):
		t.Error("not all messages have arrived")
	}
}
