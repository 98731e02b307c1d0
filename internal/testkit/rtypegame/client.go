package rtypegame

import (
	"encoding/binary"
	"slices"
)

// Client follows the rules of the game's own clients (RTypeClient.cpp):
//
//   - It says its hello once, never repeats it and never answers a ping.
//   - Early and late clients read the first datagram as the count and the second as the length of names. They read as
//     many datagrams as names as the count says, without a look at them.
//   - A create makes an entity also where there is one, which leaks.
//   - A client of the last game says after each sixth count again which components it has no use for, also after its
//     start.
//   - An attach resets a component, and an update attaches one that is missing. Instructions for unknown entities and
//     components do nothing.
type Client struct {
	Stage  Stage
	Types  []string // components that it has a use for; nil: all
	World  World
	Made   int // entities, leaked ones among them
	Ended  bool
	Frames int

	read   int // datagrams of the initialisation
	count  int
	names  map[uint16]string
	counts int      // 06 received
	unused []uint16 // components that it has no use for, as often as they were named
	since  int      // 06 since it said so of all of them
	done   bool
	out    [][]byte
}

// NewClient returns a client that has its hello to say.
func NewClient(stage Stage, types ...string) *Client {
	c := &Client{Stage: stage, Types: types, World: make(World), names: make(map[uint16]string)}
	if stage == Final {
		c.say([]byte{0})
	} else {
		c.say([]byte("start"))
	}
	return c
}

func (c *Client) say(d []byte) { c.out = append(c.out, d) }

// Next is the next datagram that the client sends.
func (c *Client) Next() (d []byte, ok bool) {
	if len(c.out) == 0 {
		return nil, false
	}
	d, c.out = c.out[0], c.out[1:]
	return d, true
}

// Ready reports whether the initialisation is over.
func (c *Client) Ready() bool { return c.done }

// Names are the components as the client knows them.
func (c *Client) Names() map[uint16]string { return c.names }

// Receive takes a datagram of the server's.
func (c *Client) Receive(d []byte) {
	switch {
	case len(d) == 0:
	case !c.done && c.Stage != Final:
		c.initialise(d)
	default:
		c.interpret(d)
	}
}

// initialise takes a datagram for what the client waits for.
func (c *Client) initialise(d []byte) {
	c.read++
	switch c.read {
	case 1:
		if len(d) >= 2 {
			c.count = int(binary.BigEndian.Uint16(d))
		}
	case 2: // the length, of which it makes nothing
	default:
		if c.Stage == Early {
			c.names[uint16(d[0])] = string(d[1:])
		} else if len(d) >= 2 {
			c.names[binary.LittleEndian.Uint16(d)] = string(d[2:])
		}
	}
	c.done = c.read >= 2 && c.read-2 >= c.count
}

func (c *Client) interpret(d []byte) {
	switch d[0] {
	case nextFrame:
		c.Frames++
		return
	case named, counted:
		if c.Stage == Final && len(d) >= 3 {
			c.lobby(d)
			return
		}
	}
	if string(d) == Goodbye || string(d) == Goodbye+"\x00" {
		c.Ended = true
		return
	}
	e, rest, ok := c.Stage.takeEntity(d[1:])
	if !ok || d[0] > detach {
		return // "Unknown opcode"
	}
	switch d[0] {
	case create:
		c.Made++
		if _, ok := c.World[e]; !ok {
			c.World[e] = make(map[string][]byte)
		}
	case remove:
		delete(c.World, e)
	default:
		c.change(d[0], e, rest)
	}
}

// change follows an attach, an update or a detach.
func (c *Client) change(op byte, e uint32, rest []byte) {
	component, data, ok := c.Stage.takeComponent(rest)
	components, there := c.World[e]
	name := c.names[component]
	if !ok || !there || !c.uses(name) {
		return
	}
	switch op {
	case attach:
		components[name] = nil
	case update:
		components[name] = slices.Clone(data)
	case detach:
		delete(components, name)
	}
}

func (c *Client) uses(name string) bool {
	return name != "" && (c.Types == nil || slices.Contains(c.Types, name))
}

// lobby takes a name or a count of the last game's.
func (c *Client) lobby(d []byte) {
	if d[0] == counted {
		if int(binary.BigEndian.Uint16(d[1:])) == len(c.Types) && c.counts >= 2 && !c.done {
			c.done = true
			c.say([]byte{2})
		}
		c.counts++
		if c.since++; c.since > 5 {
			c.since = 0
			for _, i := range c.unused {
				c.say(binary.LittleEndian.AppendUint16([]byte{1}, i))
			}
		}
		return
	}
	index := binary.LittleEndian.Uint16(d[1:])
	if name := string(d[3:]); c.uses(name) {
		c.names[index] = name
	} else {
		c.unused = append(c.unused, index)
		c.say([]byte{1, d[1], d[2]})
	}
}

// Press has the client update a component of an entity that it controls, as the keyboard does.
func (c *Client) Press(e uint32, name string, data []byte) {
	for component, known := range c.names {
		if known == name {
			b := c.Stage.appendEntity([]byte{update}, e)
			c.say(append(c.Stage.appendComponent(b, component), data...))
			return
		}
	}
}
