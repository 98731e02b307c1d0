package cli

import (
	"errors"
	"net"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
)

// askRiptide asks to join, which is the only question a Riptide server answers, and leaves at once. A server that has a
// say in who joins first answers that it is deciding; its decision is waited for.
func askRiptide(conn net.Conn, answers chan<- answer) {
	to := conn.RemoteAddr().(*net.UDPAddr).AddrPort()
	joining := riptide.New(riptide.Options{}).Dial(time.Now(), to, codec.Hello{})
	defer func() {
		joining.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
		transmit(conn, joining)
	}()
	found := answer{Protocol: "riptide-2.2", Text: "there, and deciding whom to let in"}
	decideBy := time.Time{} // set by the first answer
	var b [codec.MaxDatagram]byte
	for {
		asked := time.Now() // it asks now, or when its deadline comes
		transmit(conn, joining)
		deadline := joining.NextTimeout()
		if !decideBy.IsZero() && decideBy.Before(deadline) {
			deadline = decideBy
		}
		_ = conn.SetReadDeadline(deadline)
		n, err := conn.Read(b[:])
		now := time.Now()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case isTimeout(err) && !decideBy.IsZero() && !now.Before(decideBy):
			answers <- found
			return
		case isTimeout(err):
			joining.Advance(now)
		case err == nil && joining.Receive(now, b[:n]) == nil && decideBy.IsZero():
			decideBy, found.RTT = now.Add(decision), milliseconds(now.Sub(asked))
		}
		ev, decided := joining.Poll()
		switch {
		case !decided:
		case ev.Kind == codec.Disconnected && decideBy.IsZero():
			return // it has asked often enough
		default:
			found.Text = verdict(ev)
			answers <- found
			return
		}
	}
}

// decision is how long a Riptide server may take to decide.
const decision = 500 * time.Millisecond

// verdict is what a Riptide server's decision means for a player.
func verdict(ev codec.Event) string {
	if ev.Kind == codec.Disconnected {
		return "there, and refuses: " + ev.Reason.String()
	}
	return "there, and lets players in"
}

// transmit writes what a connection has to say.
func transmit(conn net.Conn, c codec.Conn) {
	for {
		datagram, ok := c.Transmit(time.Now(), make([]byte, 0, codec.MaxDatagram))
		if !ok {
			return
		}
		_, _ = conn.Write(datagram) // a lost one is asked for again
	}
}
