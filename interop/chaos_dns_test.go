//go:build interop && chaos

package interop_test

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"tidegate/internal/testkit/await"
)

// liar is a name server whose answers can become false.
type liar struct {
	mu     sync.Mutex
	answer func(w dns.ResponseWriter, question *dns.Msg) // to a question for SRV records
	host   string                                        // the address of each name
	asked  int
}

// ServeDNS implements dns.Handler.
func (l *liar) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch question.Question[0].Qtype {
	case dns.TypeSRV:
		l.asked++
		l.answer(w, question)
	case dns.TypeA:
		records(w, question, question.Question[0].Name+" 0 IN A "+l.host)
	default:
		records(w, question)
	}
}

// records answers a question with some records.
func records(w dns.ResponseWriter, question *dns.Msg, texts ...string) {
	answer := new(dns.Msg).SetReply(question)
	for _, text := range texts {
		if r, err := dns.NewRR(text); err == nil { // a missing record shows
			answer.Answer = append(answer.Answer, r)
		}
	}
	_ = w.WriteMsg(answer)
}

// names returns an answer: a server at a port.
func names(port string) func(w dns.ResponseWriter, question *dns.Msg) {
	return func(w dns.ResponseWriter, question *dns.Msg) {
		records(w, question, question.Question[0].Name+" 0 IN SRV 0 1 "+port+" game.arena.test.")
	}
}

// says changes the answers, and waits for some questions. At the second one the proxy has seen the first answer.
func (l *liar) says(t *testing.T, questions int, host string, answer func(w dns.ResponseWriter, question *dns.Msg)) {
	t.Helper()
	l.mu.Lock()
	l.host, l.answer, l.asked = host, answer, 0
	l.mu.Unlock()
	await.Until(t, "asked", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.asked >= questions
	})
}

// lyingDNS finds the game server by DNS, which then fails, answers with garbage, and names other addresses.
func lyingDNS(t *testing.T) string {
	const here = "127.0.0.1"
	server := startGoServer(t)
	l := &liar{host: here, answer: names(server.port)}
	conn, err := net.ListenPacket("udp", here+":0")
	if err != nil {
		t.Fatal(err)
	}
	zone := &dns.Server{PacketConn: conn, Handler: l}
	go func() { _ = zone.ActivateAndServe() }()
	t.Cleanup(func() { _ = zone.Shutdown() })
	p := bedrock(t, server)
	p.servers = nil
	p.upstream = fmt.Sprintf("discover = [\"_game._udp.arena.test\"]\nresolver = %q", conn.LocalAddr())
	g := p.open(t)
	stays := joins(t, g.plan.port)
	in := 0
	for _, answer := range []func(w dns.ResponseWriter, question *dns.Msg){
		func(w dns.ResponseWriter, question *dns.Msg) { dns.HandleFailed(w, question) },
		func(w dns.ResponseWriter, _ *dns.Msg) { _, _ = w.Write([]byte("not an answer at all")) },
	} {
		l.says(t, 1, here, answer)
		stays.plays(t)
		joins(t, g.plan.port).plays(t)
		in++
	}
	for host, port := range map[string]string{here: g.plan.port, "224.0.0.1": server.port} {
		l.says(t, 1, host, names(port))
		g.await(t, "discovered addresses skipped: want game servers, not a listener of this proxy or a group of machines")
		stays.plays(t)
	}
	l.says(t, 2, here, names(server.port))
	stays.plays(t)
	joins(t, g.plan.port).plays(t)
	return fmt.Sprintf("%d of 2 join by the last good answer; 2 of 2 false addresses are skipped; the player plays on, "+
		"and another joins after the next true answer", in)
}
