// Command minecraft is a Minecraft Bedrock server on Dragonfly, or a player on gophertunnel. It reads orders from stdin
// and writes events to stdout, as lines of JSON. Usage: minecraft PORT|HOST:PORT ROLE. The role is server, plain (a
// server that does not encrypt), or the network of a player: raknet, nethernet, or thief (it has another's login).
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/df-mc/dragonfly/server/world/chunk"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if len(os.Args) != 3 {
		fail("usage: minecraft PORT|HOST:PORT ROLE")
	}
	address := os.Args[1]
	if !strings.Contains(address, ":") {
		address = "127.0.0.1:" + address
	}
	var err error
	switch os.Args[2] {
	case "plain":
		_ = os.Setenv("PLAIN", "1") // minecraft_test.go lets gophertunnel read it
		err = serve(address)
	case "server":
		err = serve(address)
	default:
		err = play(os.Args[2], address)
	}
	if err != nil {
		fail(err)
	}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

// told serializes the events.
var told sync.Mutex

// tell writes an event. The payload of chat is its text in hex.
func tell(event, payload string) {
	line, err := json.Marshal(map[string]string{"event": event, "payload": payload})
	if err != nil {
		fail(err)
	}
	told.Lock()
	defer told.Unlock()
	fmt.Println(string(line))
}

// obey executes orders until stdin ends, and ends the process then.
func obey(orders map[string]func(text string)) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var order struct{ Do, Payload string }
		if err := json.Unmarshal(lines.Bytes(), &order); err != nil {
			fail(err)
		}
		text, err := hex.DecodeString(order.Payload)
		if err != nil || orders[order.Do] == nil {
			fail("bad order: " + lines.Text())
		}
		orders[order.Do](string(text))
	}
	os.Exit(0)
}

// filled is the number of sub-chunks with blocks in a chunk, from the bottom.
const filled = 6

// tellChunk tells the position of a chunk and a hash of its blocks.
func tellChunk(x, z int32, c *chunk.Chunk) {
	h := sha256.New()
	var block [4]byte
	bottom := int16(c.Range().Min())
	for y := bottom; y < bottom+16*filled; y++ {
		for column := range 256 {
			binary.LittleEndian.PutUint32(block[:], c.Block(uint8(column>>4), y, uint8(column&15), 0))
			h.Write(block[:])
		}
	}
	tell("chunk", fmt.Sprintf("%d,%d %x", x, z, h.Sum(nil)))
}
