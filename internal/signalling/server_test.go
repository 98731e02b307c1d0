package signalling

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/joining"
	"tidegate/internal/testkit/scarce"
)

// TestJoin asks and joins on one connection, as a client does.
func TestJoin(t *testing.T) {
	w := serve(t, nil)
	c := w.dial()
	got := c.send(get("/v1/join?version=1.26.60&protocol=2225"))
	if got.status != http.StatusOK || got.body != `{"name":"BDS","query":"version=1.26.60&protocol=2225"}` ||
		got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", got)
	}
	got = c.send(post("/v1/join/15?version=1.26.60", offerOf(1)))
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/sdp" ||
		got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
		t.Fatalf("%+v", got)
	}
	for _, line := range []string{
		"a=candidate:1 1 udp 2130706431 203.0.113.9 19132 typ host\r\na=end-of-candidates\r\n", "a=identity:signed too\r\n",
		"a=ice-ufrag:srv1\r\n", "a=fingerprint:sha-256 CC:DD\r\na=setup:active\r\n",
	} {
		if !strings.Contains(got.body, line) {
			t.Errorf("the answer lacks %q: %s", line, got.body)
		}
	}
	asked := <-w.bds.asked
	if asked.uri != "/v1/join/15?version=1.26.60" || asked.host != "play.example" ||
		asked.length != int64(len(asked.body)) || asked.header.Get("User-Agent") != "libhttpclient/1.0.0.0" ||
		asked.header.Get("Content-Type") != "application/sdp" {
		t.Errorf("%+v", asked)
	}
	if strings.Contains(asked.body, "198.51.100.7") || strings.Contains(got.body, "127.0.0.1") {
		t.Errorf("an address of the other side is left:\n%s\n%s", asked.body, got.body)
	}
	ticket := w.tickets.Find(start, []byte("srv1:cli1"))
	if ticket == nil {
		t.Fatal("no ticket")
	}
	want := netip.AddrPortFrom(w.bds.addr.Addr(), 50001)
	n := ticket.Told()
	if n.Target != want || ticket.Server != w.bds.addr || n.ServerPassword != "abcdefghijabcdefghijab" ||
		ticket.Client.String() != "127.0.0.1" || ticket.Route != "arena" {
		t.Errorf("%+v", ticket)
	}
	if n := w.tickets.Counts(); n != (joining.Counts{joining.Asked: 1, joining.Answered: 1}) {
		t.Error(n)
	}
}

// TestOtherForms joins with the forms of requests that Bedrock's client does not use.
func TestOtherForms(t *testing.T) {
	w := serve(t, nil)
	c := w.dial()
	if got := c.send(chunked("/v1/join/1", offerOf(1))); got.status != http.StatusOK {
		t.Errorf("chunks: %+v", got)
	}
	if asked := <-w.bds.asked; asked.length <= 0 || asked.header.Get("Transfer-Encoding") != "" {
		t.Errorf("the server got chunks: %+v", asked)
	}
	expects := strings.Replace(post("/v1/join/2", offerOf(2)), "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1)
	if got := c.send(expects); got.status != http.StatusContinue {
		t.Errorf("100-continue: %+v", got)
	}
	if got := c.receive(); got.status != http.StatusOK {
		t.Errorf("after 100-continue: %+v", got)
	}
	spoof := strings.Replace(post("/v1/join/3", offerOf(3)), "\r\n\r\n",
		"\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 1\r\nAccept-Encoding: gzip\r\n\r\n", 1)
	if got := c.send(spoof); got.status != http.StatusOK {
		t.Errorf("headers: %+v", got)
	}
	<-w.bds.asked
	asked := <-w.bds.asked
	if h := asked.header; h.Get("X-Forwarded-For") != "" || h.Get("X-Hop") != "" || h.Get("X-End") != "1" ||
		h.Get("Accept-Encoding") != "" {
		t.Errorf("%v", h)
	}
	if joins := w.tickets.Joins(netip.MustParseAddr("127.0.0.1")); len(joins) != 3 {
		t.Errorf("%d joins of the client, whose X-Forwarded-For must not count", len(joins))
	}
}

// TestServersThatRefuse passes each refusal on unchanged, or says that the server has failed. No ticket is left.
func TestServersThatRefuse(t *testing.T) {
	const own = "127.0.0.1"
	reply := func(status int, body string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	good := fmt.Sprintf(answerText, own, 1)
	w := serve(t, nil)
	for i, test := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, int)
		status int
		body   string // empty: any
		stage  joining.Stage
		reason string
	}{
		{"code", reply(200, "37"), 200, "37", joining.Refused, "code 37"},
		{"empty", reply(200, ""), 200, "", joining.Refused, "code "},
		{"401", reply(401, "identity"), 401, "identity", joining.Refused, "Unauthorized identity"},
		{"404", reply(404, "no"), 404, "no", joining.Refused, "Not Found no"},
		{"503", reply(503, good), 503, good, joining.Refused, "Service Unavailable v=0"},
		{"302", reply(302, ""), 302, "", joining.Refused, "Found "},
		{"too large", reply(200, good+strings.Repeat("x", maxBody)), 502, "", joining.Failed, errBody.Error()},
		{"no fingerprint", reply(200, strings.Replace(good, "fingerprint", "print", 1)), 502, "",
			joining.Failed, "no fingerprint"},
		{"another's address", reply(200, fmt.Sprintf(answerText, "192.0.2.99", 1)), 502, "",
			joining.Failed, "192.0.2.99:50001"},
		{"no candidate", reply(200, strings.Replace(good, "candidate", "x", 1)), 502, "", joining.Failed, "no UDP candidate"},
		{"dead", func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, 502, "",
			joining.Failed, "EOF"},
	} {
		w.bds.behave(test.answer)
		got := w.dial().send(post("/v1/join/1", offerOf(1)))
		if got.status != test.status || test.body != "" && got.body != test.body {
			t.Errorf("%s: %+v", test.name, got)
		}
		if join := w.lastOver(i + 1); join.Stage != test.stage || !strings.Contains(join.Reason, test.reason) {
			t.Errorf("%s: %+v", test.name, join)
		}
	}
	if u, s := w.tickets.Sizes(); u+s != 0 {
		t.Errorf("%d joins, %d sessions are left", u, s)
	}
	if n := w.tickets.Counts(); n[joining.Asked] != 11 || n[joining.Refused] != 6 || n[joining.Failed] != 5 {
		t.Error(n)
	}
}

// TestSilentServer gives a server up that does not answer.
func TestSilentServer(t *testing.T) {
	w := serve(t, func(o *Options) { o.Times.Answer = 50 * time.Millisecond })
	w.bds.behave(func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
	if got := w.dial().send(post("/v1/join/1", offerOf(1))); got.status != http.StatusGatewayTimeout {
		t.Errorf("%+v", got)
	}
	if join := w.lastOver(1); join.Stage != joining.Failed || !strings.Contains(join.Reason, "no answer in time") {
		t.Errorf("%+v", join)
	}
}

// TestServerAtAnyAddress takes the port of a server that knows only its inner address.
func TestServerAtAnyAddress(t *testing.T) {
	var w *world
	w = serve(t, func(o *Options) {
		o.Pick = func(netip.Addr, bool, netip.AddrPort) (Backend, error) {
			return Backend{Addr: w.bds.addr, AnyAddress: true}, nil
		}
	})
	const inner = "172.17.0.2"
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, n int) { fmt.Fprintf(to, answerText, inner, n) })
	if got := w.dial().send(post("/v1/join/1", offerOf(1))); got.status != 200 || strings.Contains(got.body, inner) {
		t.Errorf("%+v", got)
	}
	ticket := w.tickets.Find(start, []byte("srv1:cli1"))
	if ticket == nil || ticket.Told().Target.String() != "127.0.0.1:50001" {
		t.Errorf("%+v", ticket)
	}
}

// TestNamesOfALiveSession answers a second join of the same names with a conflict.
func TestNamesOfALiveSession(t *testing.T) {
	w := serve(t, nil)
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, _ int) { fmt.Fprintf(to, answerText, "127.0.0.1", 7) })
	c := w.dial()
	first, second := c.send(post("/v1/join/1", offerOf(1))), c.send(post("/v1/join/1", offerOf(1)))
	if first.status != 200 || second.status != http.StatusConflict {
		t.Errorf("%+v, %+v", first, second)
	}
	if third := c.send(post("/v1/join/1", offerOf(2))); third.status != 200 {
		t.Errorf("other names: %+v", third)
	}
}

// TestSlowServer answers later than a client may take for its own part.
func TestSlowServer(t *testing.T) {
	const body = 200 * time.Millisecond
	w := serve(t, func(o *Options) { o.Times.Body = body })
	w.bds.slow.Store(int64(2 * body)) // it gathers its candidates
	c := w.dial()
	for _, text := range []string{get("/v1/join"), post("/v1/join/1", offerOf(1)), chunked("/v1/join/2", offerOf(2))} {
		if got := c.send(text); got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
	}
}

// TestServerIsDown answers at once.
func TestServerIsDown(t *testing.T) {
	down := listen(t)
	_ = down.Close()
	w := serve(t, func(o *Options) {
		o.Pick = func(netip.Addr, bool, netip.AddrPort) (Backend, error) {
			return Backend{Addr: addrOf(down.Addr())}, nil
		}
	})
	c := w.dial()
	if got := c.send(get("/v1/join")); got.status != http.StatusBadGateway {
		t.Errorf("%+v", got)
	}
	if got := c.send(post("/v1/join/1", offerOf(1))); got.status != http.StatusBadGateway {
		t.Errorf("%+v", got)
	}
	w.wantSilentServer()
}

// TestDrain refuses joins, and goes on to answer lists.
func TestDrain(t *testing.T) {
	w := serve(t, func(o *Options) { o.Draining = func() bool { return true } })
	c := w.dial()
	if got := c.send(post("/v1/join/1", offerOf(1))); got.status != http.StatusServiceUnavailable {
		t.Errorf("%+v", got)
	}
	if got := w.dial().send(get("/v1/join")); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	w.wantSilentServer()
}

// TestPlayersWhoNeverComeOverHTTP frees the place of a player that took an answer and sent no datagram.
func TestPlayersWhoNeverComeOverHTTP(t *testing.T) {
	w := serve(t, nil)
	if got := w.dial().send(post("/v1/join/1", offerOf(1))); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	w.pass(joining.DefaultLimits.Patience)
	w.tickets.Expire(w.now)
	if join := w.lastOver(1); join.Stage != joining.NeverCame || join.ID != "1" {
		t.Errorf("%+v", join)
	}
}

// TestLastAnswers ends a Server while a join waits. The client still gets its answer.
func TestLastAnswers(t *testing.T) {
	w := serve(t, nil)
	goOn := make(chan struct{})
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, n int) {
		<-goOn
		fmt.Fprintf(to, answerText, "127.0.0.1", n)
	})
	c, got := w.dial(), make(chan result, 1)
	go func() { got <- c.send(post("/v1/join/1", offerOf(1))) }()
	<-w.bds.asked
	idle := w.dial()
	if got := idle.send(get("/v1/join")); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	w.cancel()
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF { // the connections without a request are closed
		t.Error(err)
	}
	if c, err := net.Dial("tcp", w.at); err == nil {
		_ = c.Close()
		t.Error("the port is open")
	}
	close(goOn)
	if r := <-got; r.status != http.StatusOK || !strings.HasPrefix(r.body, "v=0") {
		t.Errorf("%+v", r)
	}
}

// TestListenersWithoutDescriptors ends Servers whose listeners have no descriptors for connections.
func TestListenersWithoutDescriptors(t *testing.T) {
	scarce.Listeners(t, func(ctx context.Context, l net.Listener) error {
		return New(Options{Tickets: joining.NewTickets(joining.DefaultLimits, nil)}).Serve(ctx, l)
	})
}
