//go:build interop

package interop_test

import (
	"net/netip"
	"strconv"
	"time"
)

// ripMessage is the content of a game's reliable message.
func ripMessage(p []byte) *ripBits { return new(ripBits).put(ripID, 8).bytes(p) }

// ripHeard is a datagram that waits for its tick.
type ripHeard struct {
	from netip.AddrPort
	to   *ripClient
	d    []byte
}

// ripLoop runs an end in ticks until its orders end.
func ripLoop(hz string, heard <-chan ripHeard, tick func(now time.Time), take func(now time.Time, h ripHeard),
	obey func(now time.Time, o order)) {
	rate, _ := strconv.Atoi(hz) // the harness writes it
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	orders := ordersIn()
	for range ticker.C {
		now := time.Now()
		tick(now)
		for more := true; more; {
			select {
			case h := <-heard:
				take(now, h)
			default:
				more = false
			}
		}
		for more := true; more; {
			select {
			case o, ok := <-orders:
				if !ok {
					return
				}
				obey(now, o)
			default:
				more = false
			}
		}
	}
}

func ripPatience(args []string) time.Duration {
	if len(args) == 0 {
		return ripTimeout
	}
	seconds, _ := strconv.Atoi(args[0]) // the harness writes it
	return time.Duration(seconds) * time.Second
}

// ripServe is a server that echoes reliable messages: ADDRESS PLACES HZ [SECONDS]. The seconds are its time-out.
func ripServe(args []string) {
	socket := bound(args[0])
	places, _ := strconv.Atoi(args[1])
	patience := ripPatience(args[3:])
	heard := make(chan ripHeard, 1<<14)
	go receive(socket, func(from netip.AddrPort, d []byte) { heard <- ripHeard{from, nil, d} })
	clients := make(map[netip.AddrPort]*ripConn)
	var ids []uint16
	for i := range places {
		ids = append(ids, uint16(i+1))
	}
	var beat time.Time
	end := func(now time.Time, at netip.AddrPort, reason int) {
		c := clients[at]
		delete(clients, at)
		ids = append(ids, c.id)
		if !c.up {
			return
		}
		tell(event{Event: "left", Client: c.id, Reason: reason})
		for _, other := range clients {
			if other.up {
				other.reliable(now, ripLeft, new(ripBits).put(uint64(c.id), 16))
			}
		}
	}
	tell(event{Event: "listening"})
	ripLoop(args[2], heard, func(now time.Time) {
		late := now.Sub(beat) >= ripBeat
		if late {
			beat = now
		}
		for at, c := range clients {
			if c.resend(now) {
				end(now, at, ripPoor)
			} else if late && now.Sub(c.alive) > patience {
				end(now, at, ripTimedOut)
			}
		}
	}, func(now time.Time, h ripHeard) {
		r := &ripBits{b: h.d}
		kind, c := r.take(4), clients[h.from]
		switch {
		case c == nil && kind == ripConnect && len(ids) == 0:
			for range 3 {
				_, _ = socket.WriteToUDPAddrPort(new(ripBits).put(ripReject, 4).put(ripServerFull, 8).b, h.from)
			}
		case c == nil && kind == ripConnect:
			c = newRipConn(now, func(d []byte) { _, _ = socket.WriteToUDPAddrPort(d, h.from) })
			clients[h.from], c.id, ids = c, ids[0], ids[1:]
			c.reliable(now, ripWelcome, new(ripBits).put(uint64(c.id), 16))
		case c == nil:
		case kind == ripAck:
			c.acknowledged(r)
		case kind == ripHeartbeat && c.up:
			ping, rtt := r.take(8), int16(r.take(16))
			c.alive = now
			c.measured(time.Duration(rtt) * time.Millisecond)
			c.send(new(ripBits).put(ripHeartbeat, 4).put(ping, 8).b)
		case kind == ripDisconnect:
			end(now, h.from, ripDisconnected)
		case kind == ripWelcome || kind == ripReliable:
			if !c.take(uint16(r.take(16))) {
				return
			}
			if kind == ripReliable {
				if r.take(8) >= ripKiller {
					panic("IndexOutOfRangeException in ShouldRelay")
				}
				p := r.rest()
				tell(event{Event: "received", Client: c.id, Payload: head(p), Size: len(p)})
				c.reliable(now, ripReliable, ripMessage(p))
				return
			}
			c.up, c.alive = true, now
			tell(event{Event: "joined", Client: c.id})
			for _, other := range clients {
				if other != c && other.up {
					other.reliable(now, ripJoined, new(ripBits).put(uint64(c.id), 16))
				}
			}
		}
	}, func(now time.Time, o order) {
		switch o.Do {
		case "pause":
			time.Sleep(time.Duration(o.Pause) * time.Millisecond)
		case "burst":
			for _, c := range clients {
				for i := range o.Count {
					c.reliable(now, ripReliable, ripMessage(burstMessage(o, i)))
				}
			}
		case "report":
			sends, delivered := 0, 0
			for _, c := range clients {
				for _, n := range c.sends {
					sends, delivered = sends+n, delivered+1
				}
				tell(event{Event: "figure", Name: "round trip", Figure: float64(c.rtt / time.Millisecond)})
			}
			if delivered > 0 {
				tell(event{Event: "figure", Name: "sends", Figure: float64(sends) / float64(delivered)})
			}
		}
	})
}

// ripClient is a client with its socket.
type ripClient struct {
	*ripConn
	number   uint16  // of the harness
	socket   *steady // nil: none
	attempts int
	beat     time.Time
	ping     byte
	pinged   time.Time
	last     time.Duration // measured round trip
}

// ripPlay is some clients: SERVER HZ [SECONDS].
func ripPlay(args []string) {
	patience := ripPatience(args[2:])
	heard := make(chan ripHeard, 1<<14)
	var players []*ripClient
	connect := func(now time.Time, p *ripClient) {
		socket := towards(args[0], 0)
		p.socket = &socket
		go receive(socket.UDPConn, func(from netip.AddrPort, d []byte) { heard <- ripHeard{from, p, d} })
		p.ripConn = newRipConn(now, func(d []byte) { _, _ = socket.Write(d) })
		p.attempts, p.beat, p.last = 1, now, -time.Millisecond
		tell(event{Event: "begins", Client: p.number})
		p.send(new(ripBits).put(ripConnect, 4).b)
	}
	end := func(p *ripClient, kind string, reason int) {
		_ = p.socket.Close()
		p.socket, p.up = nil, false
		if kind != "" {
			tell(event{Event: kind, Client: p.number, Reason: reason})
		}
	}
	ripLoop(args[1], heard, func(now time.Time) {
		for _, p := range players {
			if p.socket == nil {
				continue
			}
			if p.resend(now) {
				end(p, "disconnected", ripPoor)
				continue
			}
			if now.Sub(p.beat) < ripBeat {
				continue
			}
			p.beat = now
			switch {
			case p.up && now.Sub(p.alive) > patience:
				end(p, "disconnected", ripTimedOut)
			case p.up:
				p.ping++
				p.pinged = now
				p.send(new(ripBits).put(ripHeartbeat, 4).put(uint64(p.ping), 8).put(uint64(uint16(p.last.Milliseconds())), 16).b)
			case p.attempts == ripAttempts:
				end(p, "refused", 0)
			default:
				p.attempts++
				p.send(new(ripBits).put(ripConnect, 4).b)
			}
		}
	}, func(now time.Time, h ripHeard) {
		p := h.to
		if p.socket == nil {
			return
		}
		r := &ripBits{b: h.d}
		switch kind := r.take(4); kind {
		case ripAck:
			p.acknowledged(r)
		case ripReject:
			if !p.up {
				end(p, "refused", int(r.take(8)))
			}
		case ripHeartbeat:
			p.alive = now
			if byte(r.take(8)) == p.ping && !p.pinged.IsZero() {
				p.last = max(time.Millisecond, now.Sub(p.pinged))
				p.measured(p.last)
			}
		case ripDisconnect:
			end(p, "disconnected", int(r.take(8)))
		case ripWelcome, ripReliable, ripJoined, ripLeft:
			if !p.take(uint16(r.take(16))) {
				return
			}
			switch kind {
			case ripWelcome:
				p.id, p.up, p.alive = uint16(r.take(16)), true, now
				p.reliable(now, ripWelcome, new(ripBits).put(uint64(p.id), 16))
				tell(event{Event: "connected", Client: p.number})
			case ripReliable:
				r.take(8)
				m := r.rest()
				tell(event{Event: "received", Client: p.number, Payload: head(m), Size: len(m)})
			case ripLeft:
				tell(event{Event: "gone", Client: p.number})
			}
		}
	}, func(now time.Time, o order) {
		if o.Do == "join" {
			for range o.Count {
				p := &ripClient{number: uint16(len(players))}
				players = append(players, p)
				connect(now, p)
			}
			return
		}
		p := players[o.Player]
		switch o.Do {
		case "burst":
			for i := range o.Count {
				if p.up {
					p.reliable(now, ripReliable, ripMessage(burstMessage(o, i)))
				}
			}
		case "killer":
			p.reliable(now, ripReliable, new(ripBits).put(ripKiller, 8).put(ripKiller/128, 8))
		case "leave":
			p.send(new(ripBits).put(ripDisconnect, 4).b)
			end(p, "", 0)
		case "again":
			if p.socket != nil {
				p.send(new(ripBits).put(ripDisconnect, 4).b)
				end(p, "", 0)
			}
			connect(now, p)
		case "pause":
			time.Sleep(time.Duration(o.Pause) * time.Millisecond)
		}
	})
}
