package rtypegame

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Server follows the rules of the game's own server (UDPServer.cpp). It tells every client each change of the world,
// one instruction a datagram, and never attaches during the game.
type Server struct {
	Stage Stage
	Names []string // components by index
	World World
	Out   func(to netip.AddrPort, d []byte)

	Updates int // from clients

	next    uint32
	clients map[netip.AddrPort]*guest
	order   []netip.AddrPort
}

// guest is a client as its server knows it.
type guest struct {
	started bool
	ignored map[string]bool
	recount time.Time // when the last game's count is due again
}

// NewServer returns a server without entities.
func NewServer(stage Stage, names []string, out func(netip.AddrPort, []byte)) *Server {
	return &Server{Stage: stage, Names: names, World: make(World), Out: out, clients: make(map[netip.AddrPort]*guest)}
}

// Receive takes a client's datagram.
func (s *Server) Receive(now time.Time, from netip.AddrPort, d []byte) {
	g := s.clients[from]
	switch {
	case len(d) == 0:
	case g == nil && s.Stage != Final && string(d) != "start":
	case g == nil:
		g = &guest{ignored: make(map[string]bool)}
		s.clients[from] = g
		s.order = append(s.order, from)
		if s.Stage != Final {
			g.started = true
			s.initialise(from)
			s.tellWorld(from, g)
			return
		}
		s.lobby(now, from, g, d)
	case d[0] == update:
		s.change(d)
	case s.Stage == Final:
		s.lobby(now, from, g, d)
	}
}

func (s *Server) change(d []byte) {
	e, rest, ok := s.Stage.takeEntity(d[1:])
	c, data, ok2 := s.Stage.takeComponent(rest)
	if ok && ok2 && s.World[e] != nil && int(c) < len(s.Names) {
		s.Updates++
		s.World[e][s.Names[c]] = slices.Clone(data)
	}
}

func (s *Server) initialise(to netip.AddrPort) {
	s.Out(to, binary.BigEndian.AppendUint16(nil, uint16(len(s.Names))))
	index := func(i int) []byte {
		if s.Stage == Early {
			return []byte{byte(i)}
		}
		return binary.LittleEndian.AppendUint16(nil, uint16(i))
	}
	s.Out(to, index(16))
	for i, name := range s.Names {
		s.Out(to, append(index(i), name...))
	}
}

func (s *Server) lobby(now time.Time, from netip.AddrPort, g *guest, d []byte) {
	switch {
	case d[0] == 0:
		g.started = false
		for i, name := range s.Names {
			s.Out(from, append(binary.LittleEndian.AppendUint16([]byte{named}, uint16(i)), name...))
		}
		s.recount(now, from, g)
	case d[0] == 1 && len(d) >= 3:
		if i := int(binary.LittleEndian.Uint16(d[1:])); i < len(s.Names) {
			g.ignored[s.Names[i]] = true
			s.recount(now, from, g)
		}
	case d[0] == 2:
		g.started = true
		s.tellWorld(from, g)
	}
}

func (s *Server) recount(now time.Time, to netip.AddrPort, g *guest) {
	s.Out(to, binary.BigEndian.AppendUint16([]byte{counted}, uint16(len(s.Names)-len(g.ignored))))
	g.recount = now.Add(500 * time.Millisecond)
}

// tellWorld tells a new client everything: creates, then attaches and updates, by component.
func (s *Server) tellWorld(to netip.AddrPort, g *guest) {
	entities := slices.Sorted(maps.Keys(s.World))
	for _, e := range entities {
		s.Out(to, s.Stage.appendEntity([]byte{create}, e))
	}
	for _, op := range []byte{attach, update} {
		for i, name := range s.Names {
			for _, e := range entities {
				data, ok := s.World[e][name]
				if !ok || g.ignored[name] {
					continue
				}
				d := s.Stage.appendComponent(s.Stage.appendEntity([]byte{op}, e), uint16(i))
				if op == update {
					d = append(d, data...)
				}
				s.Out(to, d)
			}
		}
	}
}

func (s *Server) all(d []byte) {
	for _, to := range s.order {
		s.Out(to, d)
	}
}

// Spawn makes an entity with components, which clients are told by updates alone.
func (s *Server) Spawn(components map[string][]byte) uint32 {
	e := s.next
	s.next++
	s.World[e] = make(map[string][]byte)
	s.all(s.Stage.appendEntity([]byte{create}, e))
	for _, name := range slices.Sorted(maps.Keys(components)) {
		s.Update(e, name, components[name])
	}
	return e
}

// Update changes a component of an entity.
func (s *Server) Update(e uint32, name string, data []byte) {
	s.World[e][name] = slices.Clone(data)
	d := s.Stage.appendComponent(s.Stage.appendEntity([]byte{update}, e), uint16(slices.Index(s.Names, name)))
	d = append(d, data...)
	for _, to := range s.order {
		if !s.clients[to].ignored[name] {
			s.Out(to, d)
		}
	}
}

// Kill deletes an entity.
func (s *Server) Kill(e uint32) {
	delete(s.World, e)
	s.all(s.Stage.appendEntity([]byte{remove}, e))
}

// Frame ends a frame.
func (s *Server) Frame(now time.Time) {
	s.all([]byte{nextFrame})
	for _, to := range s.order {
		if g := s.clients[to]; s.Stage == Final && !g.started && !now.Before(g.recount) {
			s.recount(now, to, g)
		}
	}
}
