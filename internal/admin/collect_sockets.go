package admin

import (
	"strconv"

	"tidegate/proxy"
)

func (out metricsOf) sockets(f *proxy.Figures) {
	var accepted, dialed, over, bad, silent, slow, refused uint64
	for i := range f.Sockets {
		s, loop := &f.Sockets[i], strconv.Itoa(i)
		out.count(socketDrops, s.KernelDrops, loop, "kernel-receive-buffer")
		out.count(socketDrops, s.WouldBlock, loop, "kernel-send-buffer")
		out.count(socketDrops, s.Truncated, loop, "too-large-received")
		out.count(socketDrops, s.TooLarge, loop, "too-large-to-send")
		out.count(socketDrops, s.Strangers, loop, "stranger")
		out.count(socketDrops, s.Refused, loop, "refused")
		out.count(socketDrops, s.Errors, loop, "error")
		out.count(socketCalls, s.In.Calls, loop, "in")
		out.count(socketCalls, s.Out.Calls, loop, "out")
		t := &s.Streams
		accepted, dialed, over = accepted+t.Accepted, dialed+t.Dialed, over+t.Ended
		bad, silent, slow, refused = bad+t.BadFrames, silent+t.Silent, slow+t.Slow, refused+t.Refused
	}
	out.count(streams, accepted, "accepted")
	out.count(streams, dialed, "dialed")
	out.count(streams, over, "ended-by-peer")
	out.count(streams, bad, "closed-bad-frame")
	out.count(streams, silent, "closed-silent")
	out.count(streams, slow, "closed-slow")
	out.count(streams, refused, "refused-full")
}
