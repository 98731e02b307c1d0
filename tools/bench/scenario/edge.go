package scenario

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/tools/bench/edge"
)

// Edge measures records of DTLS that pass an edge of NetherNet, beside the same datagrams through a relay.
func Edge(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Size < edge.RecordHeader+minStamp {
		o.Size = edge.RecordHeader + minStamp
	}
	kinds := relayKinds()
	for _, w := range []setup{{"tidegate-edge", "", "off"}, {"tidegate-edge-kernel", "", "auto"}} {
		kinds = append(kinds, kind{w.name, func(o *Options, echo netip.AddrPort, dir string) (*subject, error) {
			return startTidegate(w.name, dir, o, func(listen, admin netip.AddrPort) string {
				return edgeConfig(listen, echo) + common(o, w, admin)
			})
		}, alwaysInstalled})
	}
	sc := scenario{
		Result: Result{Scenario: "edge", Of: "datagram", Sessions: o.Sessions, Size: o.Size},
		each:   2,
		kinds:  append(kinds, requested(o, others)...),
		server: func() (server, error) { return startEdgeServer() },
		load:   func(to netip.AddrPort, clients int) (load, error) { return newRecordLoad(clients, o.Size, to) },
	}
	return sc.run(o)
}

// edgeConfig returns the listener and route of an edge. The server's port has joins over TCP, too.
func edgeConfig(listen, to netip.AddrPort) string {
	return fmt.Sprintf(`
[[listener]]
name = "bench"
address = %q
protocols = ["nethernet"]
route = "bench"
[[route]]
name = "bench"
upstream = "bench"
mode = "relay"
[[upstream]]
name = "bench"
protocol = "nethernet"
servers = [%q]
`, listen, to)
}

// edgeServer is an echo that answers joins and checks.
type edgeServer struct {
	*echo
	joins net.Listener
}

func startEdgeServer() (*edgeServer, error) {
	e, err := startEcho()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", e.addr().String())
	if err != nil {
		e.stop()
		return nil, err
	}
	e.integrity.Store(nethernet.NewIntegrity())
	go edge.Serve(l, e.addr())
	return &edgeServer{e, l}, nil
}

func (s *edgeServer) stop() {
	_ = s.joins.Close() // no client joins any more
	s.echo.stop()
}

// recordLoad is a datagramLoad whose datagrams look like records. At an edge, its clients first join and check.
type recordLoad struct {
	*datagramLoad
	to        netip.AddrPort
	integrity *nethernet.Integrity
	sent      uint64
	checked   []bool // clients whose check was answered
	plain     bool   // the subject is no edge
}

func newRecordLoad(clients, size int, to netip.AddrPort) (*recordLoad, error) {
	plain, err := newDatagramLoad(clients, size, to)
	if err != nil {
		return nil, err
	}
	l := &recordLoad{datagramLoad: plain, to: to, integrity: nethernet.NewIntegrity(), checked: make([]bool, clients)}
	plain.records = l
	return l, nil
}

// seal writes the header of a record into a datagram, and returns its content.
func (l *recordLoad) seal(b []byte) []byte {
	l.sent++
	edge.AppendRecordHeader(b[:0], l.sent, len(b)-edge.RecordHeader)
	return b[edge.RecordHeader:]
}

// unseal returns the content of a record, or nil for the answer to a check.
func (l *recordLoad) unseal(client int, datagram []byte) []byte {
	if edge.IsRecord(datagram) {
		return datagram[edge.RecordHeader:]
	}
	if nethernet.IsSTUN(datagram) {
		l.checked[client] = true
	}
	return nil
}

// checkEvery is the time between two checks of a client without an answer.
const checkEvery = 100 * time.Millisecond

// enter joins with the clients from first to before end, and checks their paths. A subject that refuses connections is
// no edge.
func (l *recordLoad) enter(first, end int) error {
	for i := first; i < end; i++ {
		err := edge.ErrTooMany
		for range 100 {
			if err = edge.Join(l.ctx, netip.Addr{}, l.to, uint64(i)+1); !errors.Is(err, edge.ErrTooMany) {
				break
			}
			time.Sleep(checkEvery)
		}
		switch {
		case i == 0 && errors.Is(err, syscall.ECONNREFUSED):
			l.plain = true
			fallthrough
		case l.plain:
			return nil
		case err != nil:
			return fmt.Errorf("join of client %d: %w", i, err)
		}
	}
	for range 100 {
		missing := 0
		for i, s := range l.clients[first:end] {
			if !l.checked[first+i] {
				missing++
				to, own := edge.Ufrags(uint64(first+i) + 1)
				l.poller.Send(s, s.Peer(), edge.AppendCheck(l.poller.Buffer(), l.integrity, to, own))
			}
		}
		if missing == 0 {
			return nil
		}
		for until := time.Now().Add(checkEvery); slices.Contains(l.checked[first:end], false) && time.Now().Before(until); {
			if err := l.turn(until); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("clients from %d on got no answer to their checks", first)
}
