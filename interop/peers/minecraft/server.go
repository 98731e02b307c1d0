package main

import (
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"

	"github.com/df-mc/dragonfly/server"
	"github.com/df-mc/dragonfly/server/block"
	"github.com/df-mc/dragonfly/server/player"
	"github.com/df-mc/dragonfly/server/player/chat"
	"github.com/df-mc/dragonfly/server/session"
	"github.com/df-mc/dragonfly/server/world"
	"github.com/df-mc/dragonfly/server/world/chunk"
	"github.com/sandertv/gophertunnel/minecraft"
)

// radius is the number of chunks that a player sees in each direction.
const radius = 4

// serve runs a server. Each chunk of its world has other blocks.
func serve(address string) error {
	conf := server.Config{
		Log:             slog.Default(),
		Name:            "Dragonfly",
		AuthDisabled:    true, // no accounts of Xbox Live here
		RandomTickSpeed: -1,   // blocks stay as they are
		MaxChunkRadius:  radius,
		Generator: func(dimension world.Dimension) world.Generator {
			return newGenerator(dimension == world.Overworld)
		},
	}
	failed := errors.New("the server has stopped")
	conf.Listeners = append(conf.Listeners, func(conf server.Config) (server.Listener, error) {
		l, err := minecraft.ListenConfig{
			AuthenticationDisabled: true, StatusProvider: conf.StatusProvider, ErrorLog: conf.Log,
		}.Listen("raknet", address)
		failed = errors.Join(failed, err)
		return listener{l}, err
	})
	s := conf.New()
	s.Listen()
	tell("listening", "")
	go obey(map[string]func(string){
		"send": func(text string) { _, _ = chat.Global.WriteString(text) }, // never an error
	})
	for p := range s.Accept() {
		p.Handle(&handler{})
		tell("joined", p.Name())
	}
	return failed
}

// listener is gophertunnel's listener, as Dragonfly wants it.
type listener struct{ *minecraft.Listener }

func (l listener) Accept() (session.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.(*minecraft.Conn), nil
}

func (l listener) Disconnect(conn session.Conn, reason string) error {
	return l.Listener.Disconnect(conn.(*minecraft.Conn), reason)
}

// handler tells what a player does.
type handler struct{ player.NopHandler }

func (*handler) HandleChat(_ *player.Context, message *string) {
	tell("received", hex.EncodeToString([]byte(*message)))
}

func (*handler) HandleQuit(p *player.Player) { tell("left", p.Name()) }

// generator fills chunks with blocks at random. The seed is the position.
type generator struct {
	palette []uint32
	tells   bool
}

// newGenerator makes a generator of a world. Its chunks are told if tells is set.
func newGenerator(tells bool) *generator { return &generator{tells: tells} }

// GenerateChunk implements world.Generator.
func (g *generator) GenerateChunk(at world.ChunkPos, c *chunk.Chunk) {
	if g.palette == nil {
		for _, b := range []world.Block{
			block.Stone{}, block.Bedrock{}, block.Obsidian{}, block.Netherrack{}, block.Diamond{}, block.Gold{},
			block.Iron{}, block.Emerald{},
		} {
			g.palette = append(g.palette, world.BlockRuntimeID(b))
		}
	}
	random := rand.New(rand.NewPCG(uint64(uint32(at.X())), uint64(uint32(at.Z()))))
	bottom := int16(c.Range().Min())
	for y := bottom; y < bottom+16*filled; y++ {
		for column := range 256 {
			c.SetBlock(uint8(column>>4), y, uint8(column&15), 0, g.palette[random.IntN(len(g.palette))])
		}
	}
	if g.tells {
		tellChunk(at.X(), at.Z(), c)
	}
}
