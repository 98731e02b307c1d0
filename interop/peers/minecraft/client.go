package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/df-mc/dragonfly/server/world"
	"github.com/df-mc/dragonfly/server/world/chunk"
	"github.com/sandertv/gophertunnel/minecraft"
	"github.com/sandertv/gophertunnel/minecraft/protocol"
	"github.com/sandertv/gophertunnel/minecraft/protocol/login"
	"github.com/sandertv/gophertunnel/minecraft/protocol/packet"
)

// patience is the longest time of an attempt to join, and attempts is their number. Some attempts hang, also without
// a proxy between.
const (
	patience = 8 * time.Second
	attempts = 10
)

// client is a player that has joined.
type client struct {
	conn   *minecraft.Conn
	biomes map[protocol.SubChunkPos][]byte // of chunks whose sub-chunks were asked for
}

// play joins a server and follows orders.
func play(network, address string) error {
	conn, err := join(network, address)
	for range attempts - 1 {
		if err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, err)
		tell("refused", err.Error())
		conn, err = join(network, address)
	}
	if err != nil {
		return err
	}
	tell("connected", conn.RemoteAddr().String())
	c := &client{conn: conn, biomes: make(map[protocol.SubChunkPos][]byte)}
	go obey(map[string]func(string){
		"send":  c.say,
		"leave": func(string) { _ = conn.Close() },
	})
	for {
		p, err := conn.ReadPacket()
		if err != nil {
			tell("disconnected", err.Error())
			select {} // the test ends the process
		}
		c.handle(p)
	}
}

// join makes one attempt.
func join(network, address string) (*minecraft.Conn, error) {
	dialer := minecraft.Dialer{
		IdentityData: login.IdentityData{DisplayName: "Steve"},
		ErrorLog:     slog.New(slog.NewTextHandler(os.Stderr, nil)), // names the fault that ends a connection
		PacketFunc:   hear,
	}
	conn, err := dialer.DialTimeout(network, address, patience)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	if err := conn.DoSpawnTimeout(patience); err != nil {
		return nil, fmt.Errorf("spawn: %w", errors.Join(err, conn.Close()))
	}
	return conn, nil
}

// hear tells the server's chat lines in the order in which they arrive. ReadPacket sometimes returns a packet before an
// older one: when the next packet arrives right after it has looked for older ones (gophertunnel 1.55.0).
func hear(header packet.Header, payload []byte, from, _ net.Addr) {
	if header.PacketID != packet.IDText || from.String() != os.Args[1] {
		return
	}
	var text packet.Text
	text.Marshal(protocol.NewReader(bytes.NewBuffer(payload), 0, false))
	tell("received", hex.EncodeToString([]byte(text.Message)))
}

func (c *client) say(text string) {
	identity := c.conn.IdentityData()
	c.write(&packet.Text{
		TextType: packet.TextTypeChat, SourceName: identity.DisplayName, XUID: identity.XUID, Message: text,
	})
}

// write sends a packet. The end of the connection shows when the client reads.
func (c *client) write(p packet.Packet) { _ = c.conn.WritePacket(p) }

func (c *client) handle(p packet.Packet) {
	switch p := p.(type) {
	case *packet.LevelChunk:
		c.ask(p)
	case *packet.SubChunk:
		if err := c.take(p); err != nil {
			fmt.Fprintln(os.Stderr, err)
			tell("broken", err.Error())
		}
	}
}

// ask asks for the sub-chunks of a chunk.
func (c *client) ask(p *packet.LevelChunk) {
	bottom := int32(world.Overworld.Range().Min() >> 4)
	at := protocol.SubChunkPos{p.Position.X(), bottom, p.Position.Z()}
	c.biomes[at] = p.RawPayload
	request := &packet.SubChunkRequest{Dimension: p.Dimension, Position: at}
	for i := range int8(filled) {
		request.Offsets = append(request.Offsets, protocol.SubChunkOffset{0, i, 0})
	}
	c.write(request)
}

// take decodes a chunk and tells its content.
func (c *client) take(p *packet.SubChunk) error {
	var b bytes.Buffer
	for _, entry := range p.SubChunkEntries {
		if entry.Result != protocol.SubChunkResultSuccess {
			return fmt.Errorf("sub-chunk %v of %v: result %d", entry.Offset, p.Position, entry.Result)
		}
		b.Write(entry.RawPayload)
	}
	b.Write(c.biomes[p.Position])
	decoded, err := chunk.NetworkDecodeBuffer(0, &b, len(p.SubChunkEntries), world.Overworld.Range())
	if err != nil {
		return fmt.Errorf("chunk %v: %w", p.Position, err)
	}
	tellChunk(p.Position.X(), p.Position.Z(), decoded)
	return nil
}
