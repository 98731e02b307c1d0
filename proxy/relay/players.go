package relay

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/stray"
	"tidegate/proxy/relay/admission"
)

// maxPlayerNews bounds the changes that wait for the fleet. Beyond it, the fleet asks for all players.
const maxPlayerNews = 1 << 16

// Players knows the clients of all loops for a fleet, and passes datagrams on to other nodes. Without a fleet it does
// nothing. It has at most one entry per session. Its lock is held only while a session begins or ends, and for a
// stranger's datagram. It is safe for concurrent use.
type Players struct {
	carrier atomic.Pointer[stray.Carrier] // nil: no fleet follows players

	mu     sync.RWMutex
	secret stray.Secret
	loops  map[stray.Key]uint16 // of the clients' sessions
	news   playerNews
}

// playerNews are the changes that the fleet does not know yet.
type playerNews struct {
	opened, closed []stray.Key
	missed         bool // there were too many
}

// Join begins to know clients. They are added afterwards.
func (p *Players) Join(carrier stray.Carrier, secret stray.Secret) {
	p.mu.Lock()
	p.secret, p.loops, p.news = secret, make(map[stray.Key]uint16), playerNews{}
	p.mu.Unlock()
	p.carrier.Store(&carrier)
}

func (p *Players) on() bool { return p.carrier.Load() != nil }

// opened notes that a client of a loop is no stranger.
func (p *Players) opened(listener uint64, client netip.AddrPort, loop int) {
	if !p.on() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.secret.Key(listener, client)
	p.loops[key] = uint16(loop)
	if len(p.news.opened) < maxPlayerNews {
		p.news.opened = append(p.news.opened, key)
	} else {
		p.news.missed = true
	}
}

// closed notes that a client of a loop has left.
func (p *Players) closed(listener uint64, client netip.AddrPort, loop int) {
	if !p.on() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.secret.Key(listener, client)
	if at, ok := p.loops[key]; !ok || int(at) != loop {
		return
	}
	delete(p.loops, key)
	if len(p.news.closed) < maxPlayerNews {
		p.news.closed = append(p.news.closed, key)
	} else {
		p.news.missed = true
	}
}

// Changes returns what has changed since the last call: opened may have clients that have left meanwhile, and closed
// ones that are back. With whole, or after too many changes, opened has all clients, and the result is whole.
func (p *Players) Changes(whole bool) (opened, closed []stray.Key, isWhole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.news
	p.news = playerNews{}
	if !whole && !news.missed {
		for _, key := range news.opened {
			if _, ok := p.loops[key]; ok {
				opened = append(opened, key)
			}
		}
		for _, key := range news.closed {
			if _, ok := p.loops[key]; !ok {
				closed = append(closed, key)
			}
		}
		return opened, closed, false
	}
	opened = make([]stray.Key, 0, len(p.loops))
	for key := range p.loops {
		opened = append(opened, key)
	}
	return opened, nil, true
}

// home returns a client's key, and the loop that has its session or should have it.
func (p *Players) home(d *stray.Datagram, loops int) (key stray.Key, loop int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	key = p.secret.Key(d.Listener, d.Client)
	if at, ok := p.loops[key]; ok {
		return key, int(at)
	}
	return key, int(uint64(key) % uint64(loops))
}

// passOn passes a stranger's datagram on, if another node or another loop has the session. It reports whether it did.
func (p *Players) passOn(l *listener, s netio.Socket, from netip.AddrPort, loop int, datagram []byte) bool {
	carrier := p.carrier.Load()
	if carrier == nil || !l.seesClients() || len(datagram) > stray.MaxDatagram {
		return false
	}
	p.mu.RLock()
	key := p.secret.Key(l.id, from)
	at, here := p.loops[key]
	p.mu.RUnlock()
	d := stray.Datagram{Listener: l.id, Client: from, Bytes: datagram}
	if s != l.socket {
		d.Local = s.Addr().Addr()
	}
	if here {
		if int(at) == loop {
			return false
		}
		(*carrier).PassHere(&d)
		return true
	}
	return (*carrier).PassOn(key, &d)
}

// farFace is the way to a client whose datagrams arrive at another node. Its own socket is the client's at home.
type farFace struct {
	netio.Socket
	node string
}

// maxFarFaces bounds the far faces that a Relay has made. Sessions keep theirs beyond it.
const maxFarFaces = 4096

type farKey struct {
	home netio.Socket
	node string
}

// ways are a Relay's ways to clients whose datagrams arrive elsewhere.
type ways struct {
	players *Players // shared with its siblings
	at      string   // the node at which the present datagram has arrived; empty: here
	far     map[farKey]*farFace
}

// face returns a session's way to its client by a node.
func (w *ways) face(home netio.Socket, node string) netio.Socket {
	if node == "" {
		return home
	}
	key := farKey{home, node}
	if f := w.far[key]; f != nil {
		return f
	}
	if w.far == nil || len(w.far) >= maxFarFaces {
		w.far = make(map[farKey]*farFace)
	}
	f := &farFace{home, node}
	w.far[key] = f
	return f
}

// Home returns the session's own socket to its client.
func (s *link) home() netio.Socket {
	if f, ok := s.face.(*farFace); ok {
		return f.Socket
	}
	return s.face
}

// node returns the node at which the client's datagrams arrive; empty: here.
func (s *link) node() string {
	if far, ok := s.face.(*farFace); ok {
		return far.node
	}
	return ""
}

// mayStray reports whether the client's datagrams, or those of other clients of its listener, arrive at another node.
func (s *link) mayStray() bool { return s.node() != "" || s.listener.arriving != "" }

// settled is how long the datagrams of all clients must arrive at one node, before it counts as the way to silent ones.
// Where each client has its own way, the node changes all the time.
const settled = 10 * time.Millisecond

// hasMoved reports whether a client has been silent since the datagrams of its listener's other clients have moved to
// another node, as with a floating address.
func (s *link) hasMoved(now time.Time) bool {
	l := s.listener
	return s.node() != l.arriving && s.at(s.heard).Before(l.movedAt) && now.Sub(l.movedAt) >= settled
}

// pathTime is the silence of a client after which its path may have changed, so that answers do not reach it.
const pathTime = 200 * time.Millisecond

// excuse tells a silent client's connection to ignore losses, if the fleet follows players. Answers go where the
// client's last datagram arrived, until its next one. A heartbeat may come after a second only.
func (w *ways) excuse(now time.Time, s *link) {
	if w.players.on() && s.since(now)-s.heard > pathTime {
		if e, ok := s.client.Conn.(codec.LossTolerant); ok {
			e.TolerateLoss(now.Add(admission.LossyFor))
		}
	}
}

// listenerWith returns the listener of a fleet's datagram, or nil.
func listenerWith(id uint64, all []*listener) *listener {
	for _, l := range all {
		if l.id == id && l.seesClients() {
			return l
		}
	}
	return nil
}

// faceAt returns a listener's socket for an address of this machine.
func (l *listener) faceAt(local netip.Addr) netio.Socket {
	if at, ok := l.socket.(netio.LocalSockets); ok && local.IsValid() {
		return at.LocalSocket(local)
	}
	return l.socket
}

// passAgain passes a datagram on to the node that the session has gone to, and reports whether it did.
func (w *ways) passAgain(key stray.Key, d *stray.Datagram) bool {
	carrier := w.players.carrier.Load()
	d.Hops++
	return carrier != nil && d.Hops <= stray.MaxHops && (*carrier).PassOn(key, d)
}

// keyOf returns the key of a client.
func (p *Players) keyOf(listener uint64, client netip.AddrPort) stray.Key {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.secret.Key(listener, client)
}
