package codectest

import (
	"bytes"
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// checkOptional checks the optional interfaces that the codec implements.
func checkOptional(t tb, c *Config) {
	server, _ := c.New(1)
	if _, ok := server.(codec.PerLoop); ok {
		one := *c
		one.New = perLoop(c.New)
		checkBulk(t, &one)
	}
	if p, ok := server.(codec.Pinger); ok {
		simulate(t, "pinger", func(r *report) { checkPinger(r, p) })
	}
	simulate(t, "loss-tolerant", func(r *report) { checkTolerance(r, c) })
}

// perLoop makes both protocols those of one loop.
func perLoop(build factory) factory {
	return func(seed uint64) (server, client codec.Protocol) {
		server, client = build(seed)
		return server.(codec.PerLoop).ForLoop(), client.(codec.PerLoop).ForLoop()
	}
}

// checkPinger pings and answers. The token must come back. Texts must be joined without a change of the given texts.
func checkPinger(r *report, p codec.Pinger) {
	const token = 0x1122334455667788
	ping := p.AppendPing(bytes.Clone(guard), token)
	ping, ok := bytes.CutPrefix(ping, guard)
	if !ok || len(ping) == 0 || !p.Sniff(ping) {
		r.Errorf("AppendPing appends %x, which Sniff takes: %t", ping, p.Sniff(ping))
		return
	}
	conn, pong, err := p.Accept(time.Unix(1_700_000_000, 0), strangerAddr, ping, nil)
	if conn != nil || err != nil {
		r.Errorf("Accept of a ping: Conn %v, error %v", conn, err)
	}
	got, text, err := p.ParsePong(pong)
	if got != token || err != nil {
		r.Errorf("the pong has token %#x, error %v; want %#x", got, err, uint64(token))
	}
	for n := range pong {
		if _, _, err := p.ParsePong(pong[:n]); err != nil && !errors.Is(err, codec.ErrMalformed) {
			r.Errorf("ParsePong of %d of %d bytes: %v does not wrap ErrMalformed", n, len(pong), err)
		}
	}
	other := p.AppendPing(nil, token+1)
	answer := p.AppendPong(bytes.Clone(guard), other, pong, []byte("others"))
	answer, only := bytes.CutPrefix(answer, guard)
	got, said, err := p.ParsePong(answer)
	if !only || got != token+1 || string(said) != "others" || !p.IsPing(other) || p.IsPing(answer) {
		r.Errorf("AppendPong of another ping: token %#x, text %q, error %v", got, said, err)
	}
	texts := [][]byte{bytes.Clone(text), []byte("a;b;1;2;3"), {}}
	before := bytes.Join(texts, []byte("|"))
	joined := p.JoinPongs(bytes.Clone(guard), texts, codec.Listing{Name: "name", Port: 7777})
	if !bytes.HasPrefix(joined, guard) || !bytes.Equal(before, bytes.Join(texts, []byte("|"))) {
		r.Errorf("JoinPongs does not only append: %q of %q", joined, before)
	}
}

// tolerance is how long the network loses everything while the connections tolerate losses.
const tolerance = 2 * time.Second

// checkTolerance loses everything for a while in which the connection tolerates losses. The session must live, and the
// messages sent meanwhile must arrive.
func checkTolerance(r *report, c *Config) {
	p := connectedPair(r, c, 1)
	if p == nil {
		return
	}
	sides := []*side{p.client, p.server}
	for _, s := range sides {
		tolerant, ok := s.conn.(codec.LossTolerant)
		if !ok {
			return
		}
		tolerant.TolerateLoss(p.net.Now().Add(tolerance))
		s.plan = p.compose(c.modes)
	}
	p.net.SetWeather(simnet.Weather{Loss: 1})
	p.net.Run(tolerance - clear20.Latency)
	p.net.SetWeather(clear20)
	p.runUntilSettled(false)
	p.closeAndCheck(p.client, c.Leaves[0].Sent)
}
