package signalling

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/door"
	"tidegate/internal/joining"
	"tidegate/internal/testkit/await"
	"tidegate/ratelimit"
)

// TestHostileRequests sends requests that no client sends. None reaches the server.
func TestHostileRequests(t *testing.T) {
	w := serve(t, nil)
	huge := offerOf(1) + "a=x:" + strings.Repeat("x", maxBody) + "\r\n"
	raw := func(head, body string) string { return head + "\r\nHost: h\r\n" + body }
	for name, test := range map[string]struct {
		text string
		want int
	}{
		"no SDP":            {post("/v1/join/1", "37"), 400},
		"empty":             {post("/v1/join/1", ""), 400},
		"no UTF-8":          {post("/v1/join/1", strings.Replace(offerOf(1), "AA:BB", "\xff", 1)), 400},
		"no ufrag":          {post("/v1/join/1", strings.Replace(offerOf(1), "ice-ufrag", "x", 1)), 400},
		"too large":         {post("/v1/join/1", huge), 413},
		"too large, chunks": {chunked("/v1/join/1", huge), 413},
		"huge length":       {raw("POST /v1/join/1 HTTP/1.1", "Content-Length: 99999999999\r\n\r\n"+huge), 413},
		"negative length":   {raw("POST /v1/join/1 HTTP/1.1", "Content-Length: -1\r\n\r\n"), 400},
		"two lengths":       {raw("POST /v1/join/1 HTTP/1.1", "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), 400},
		"broken chunks":     {raw("POST /v1/join/1 HTTP/1.1", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), 400},
		"unknown coding":    {raw("POST /v1/join/1 HTTP/1.1", "Transfer-Encoding: gzip\r\n\r\n"), 501},
		"huge header":       {raw("GET /v1/join HTTP/1.1", "X: "+strings.Repeat("x", 3*maxHeader)+"\r\n\r\n"), 431},
		"many headers":      {raw("GET /v1/join HTTP/1.1", strings.Repeat("X: 1\r\n", 4*maxHeader)+"\r\n"), 431},
		"no host":           {"GET /v1/join HTTP/1.1\r\n\r\n", 400},
		"no HTTP":           {"\x00\x01\x02\x03\r\n\r\n", 400},
		"another path":      {get("/"), 404},
		"NXS discovery":     {get("/.well-known/nethernet-external-signaling"), 404},
		"longer path":       {get("/v1/joins"), 404},
		"path below":        {post("/v1/join/1/2", offerOf(1)), 404},
		"path above":        {post("/v1/join/..", offerOf(1)), 404},
		"path above, coded": {post("/v1/join/%2e%2e", offerOf(1)), 404},
		"slash, coded":      {post("/v1/join/..%2fadmin", offerOf(1)), 404},
		"backslash":         {post("/v1/join/..%5cadmin", offerOf(1)), 404},
		"no ID":             {post("/v1/join", offerOf(1)), 405},
		"empty ID":          {post("/v1/join/", offerOf(1)), 405},
		"another method":    {strings.Replace(post("/v1/join/1", offerOf(1)), "POST", "PUT", 1), 405},
		"CONNECT":           {"CONNECT example.com:80 HTTP/1.1\r\nHost: example.com:80\r\n\r\n", 404},
		"PROXY header":      {"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + get("/v1/join"), 400},
	} {
		if got := w.dial().send(test.text); got.status != test.want {
			t.Errorf("%s: %d %.80q, want %d", name, got.status, got.body, test.want)
		}
	}
	w.wantSilentServer()
}

// TestMalformedOffers counts an offer that no server hears of once, as such.
func TestMalformedOffers(t *testing.T) {
	for _, w := range []*world{serve(t, nil), serveOwn(t, newKey(t), IdentityNone, nil)} {
		w.dial().send(post("/v1/join/1", "rubbish"))
		join, n := w.lastOver(1), w.tickets.Counts()
		if want := (joining.Counts{joining.Malformed: 1}); join.Stage != joining.Malformed || n != want {
			t.Errorf("%+v, %v", join, n)
		}
	}
}

// TestOddIDs joins with IDs that are no UTF-8, or not after the cut. Records and the log have text, and the server gets
// the ID as it came.
func TestOddIDs(t *testing.T) {
	long := strings.Repeat("x", maxID-1)
	for id, want := range map[string]string{"%ff": "?", long + "%c3%a9": long + "?"} {
		w := serve(t, nil)
		got := w.dial().send(post("/v1/join/"+id, offerOf(1)))
		if asked := <-w.bds.asked; got.status != http.StatusOK || asked.uri != "/v1/join/"+id {
			t.Errorf("%s: %+v, the server got %s", id, got, asked.uri)
		}
		if all := w.tickets.Save(start); len(all) != 1 || all[0].ID != want {
			t.Errorf("%s is saved in %+v", id, all)
		}
	}
}

// TestSmuggledRequests states a body's length in two ways. The server gets one request with one length.
func TestSmuggledRequests(t *testing.T) {
	w := serve(t, nil)
	body := chunked("/", offerOf(1))
	_, body, _ = strings.Cut(body, "\r\n\r\n")
	smuggled := "POST /v1/join/2 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nevil"
	got := w.dial().send("POST /v1/join/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" +
		body + smuggled)
	if got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	asked := <-w.bds.asked
	if asked.uri != "/v1/join/1" || asked.length != int64(len(asked.body)) || asked.header.Get("Transfer-Encoding") != "" {
		t.Errorf("%+v", asked)
	}
	if n := w.bds.joins.Load(); n != 1 {
		t.Errorf("%d joins", n)
	}
}

// TestSlowClients take their time. Each is closed, and no join is left.
func TestSlowClients(t *testing.T) {
	w := serve(t, func(o *Options) {
		o.Times = Times{Header: 50 * time.Millisecond, Body: 50 * time.Millisecond, Idle: 50 * time.Millisecond}
	})
	for name, text := range map[string]string{
		"nothing":     "",
		"half a line": "POST /v1",
		"half a head": "POST /v1/join/1 HTTP/1.1\r\nHost: h\r\n",
		"no body":     "POST /v1/join/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n",
		"half a body": "POST /v1/join/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nv=0",
		"half a hunk": "POST /v1/join/1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nv=0",
		"idle":        get("/v1/join"),
		"half TLS":    "\x16\x03\x01",
	} {
		c := w.dial()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil { // until it is closed
			t.Errorf("%s: %v", name, err)
		}
	}
	w.wantSilentServer()
}

// TestSlowReaders do not take their answers. Their connections end.
func TestSlowReaders(t *testing.T) {
	w := serve(t, func(o *Options) { o.Times = Times{Body: 50 * time.Millisecond} })
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, _ int) { io.WriteString(to, strings.Repeat("7", maxBody)) })
	c := w.dial()
	_ = c.SetDeadline(time.Time{}) // only the Server may end it
	go func() {
		for i := range 1000 { // more than the buffers of both ends hold
			if _, err := io.WriteString(c, post("/v1/join/1", offerOf(i))); err != nil {
				return
			}
		}
	}()
	await.Until(t, "the connection has ended", func() bool {
		_, err := c.Write([]byte{'x'})
		return err != nil
	})
}

// TestJoinsOfOneSource asks again and again while the server thinks. The server hears of a few, and others may join.
func TestJoinsOfOneSource(t *testing.T) {
	limits := joining.DefaultLimits
	limits.Network = 3
	w := serve(t, func(o *Options) { o.Tickets = joining.NewTickets(limits, nil) })
	goOn := make(chan struct{})
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, n int) {
		if n <= limits.Network {
			<-goOn
		}
		fmt.Fprintf(to, answerText, "127.0.0.1", n)
	})
	results := make(chan result, 100)
	for i := range limits.Network {
		c := w.from(fmt.Sprintf("127.0.1.%d", i+1))
		go func() { results <- c.send(post("/v1/join/1", offerOf(i))) }()
		<-w.bds.asked
	}
	for i := range 50 {
		if got := w.from("127.0.1.9").send(post("/v1/join/1", offerOf(100+i))); got.status != http.StatusTooManyRequests {
			t.Fatalf("join %d: %+v", i, got)
		}
	}
	if got := w.from("127.0.2.1").send(post("/v1/join/1", offerOf(200))); got.status != http.StatusOK {
		t.Errorf("another network: %+v", got)
	}
	if n := w.bds.joins.Load(); n != int32(limits.Network)+1 {
		t.Errorf("the server heard of %d joins", n)
	}
	close(goOn)
	for range limits.Network {
		if got := <-results; got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
	}
	// The answered joins still count until their players come or do not.
	if got := w.from("127.0.1.9").send(post("/v1/join/1", offerOf(300))); got.status != http.StatusTooManyRequests {
		t.Errorf("%+v", got)
	}
	w.pass(limits.Patience)
	w.tickets.Expire(w.now)
	if got := w.from("127.0.1.9").send(post("/v1/join/1", offerOf(400))); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}

// TestRefusalIsRead asserts that no reset follows a refusal. Some systems then forget what they have not read yet, so
// that the client would not know why it was refused.
func TestRefusalIsRead(t *testing.T) {
	w := serve(t, func(o *Options) { o.Rates = ratelimit.Rates{Overall: 100, Network: 1} })
	w.from("127.0.1.1").send(get("/v1/join"))
	text := post("/v1/join/1", offerOf(1)+strings.Repeat(" ", 8<<10))
	for _, text := range []string{
		strings.Replace(text, "Keep-Alive", "close", 1),
		strings.Replace(strings.Replace(text, "Connection: Keep-Alive\r\n", "", 1), "HTTP/1.1", "HTTP/1.0", 1),
	} {
		c := w.from("127.0.1.2")
		head, _, _ := strings.Cut(text, "\r\n\r\n")
		head += "\r\nExpect: 100-continue\r\n\r\n"
		if got := w.from("127.0.1.2").send(head); got.status != http.StatusTooManyRequests {
			t.Errorf("a client that waits with its body: %+v", got)
		}
		got := c.send(text)
		if _, err := io.ReadAll(c.reader); got.status != http.StatusTooManyRequests || err != nil {
			t.Errorf("%.40q: %+v, then %v", text, got, err)
		}
	}
}

// TestRequestsOfOneSource spends the requests of a network. Another network has its own.
func TestRequestsOfOneSource(t *testing.T) {
	w := serve(t, func(o *Options) { o.Rates = ratelimit.Rates{Overall: 100, Network: 5} })
	c := w.from("127.0.1.1")
	for range 5 {
		if got := c.send(get("/v1/join")); got.status != http.StatusOK {
			t.Fatalf("%+v", got)
		}
	}
	for _, text := range []string{get("/v1/join"), post("/v1/join/1", offerOf(1)), get("/")} {
		if got := w.from("127.0.1.2").send(text); got.status != http.StatusTooManyRequests {
			t.Errorf("%+v", got)
		}
	}
	if got := w.from("127.0.2.1").send(get("/v1/join")); got.status != http.StatusOK {
		t.Errorf("another network: %+v", got)
	}
	w.pass(time.Second)
	if got := w.from("127.0.1.1").send(get("/v1/join")); got.status != http.StatusOK {
		t.Errorf("a second later: %+v", got)
	}
	w.wantSilentServer()
}

// TestConnectionsAreBounded opens silent connections of one network. A client of another one joins, and so does one
// whose join waited while the connections came.
func TestConnectionsAreBounded(t *testing.T) {
	w := serve(t, func(o *Options) { o.Room, o.Times.Header = door.NewRoom(4), time.Hour })
	goOn := make(chan struct{})
	w.bds.behave(func(to http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			<-goOn
		}
		fmt.Fprintf(to, answerText, "127.0.0.1", n)
	})
	waiting, got := w.from("127.0.1.1"), make(chan result, 1)
	go func() { got <- waiting.send(post("/v1/join/1", offerOf(1))) }()
	<-w.bds.asked
	var closed atomic.Int32
	for range 40 {
		c := w.from("127.0.1.2")
		go func() {
			if _, err := c.Read(make([]byte, 1)); err == io.EOF {
				closed.Add(1)
			}
		}()
	}
	await.Until(t, "most are closed", func() bool { return closed.Load() >= 37 })
	if got := w.from("127.0.2.1").send(post("/v1/join/1", offerOf(2))); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	close(goOn)
	if r := <-got; r.status != http.StatusOK {
		t.Errorf("the join that waited: %+v", r)
	}
}

// TestBannedClients get nothing.
func TestBannedClients(t *testing.T) {
	w := serve(t, func(o *Options) { o.Allows = func(a netip.Addr) bool { return a.String() != "127.0.1.1" } })
	if got := w.from("127.0.1.1").send(get("/v1/join")); got.status != 0 {
		t.Errorf("%+v", got)
	}
	if got := w.from("127.0.1.2").send(get("/v1/join")); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}

// TestClientsThatLeave end their join while the server thinks.
func TestClientsThatLeave(t *testing.T) {
	w := serve(t, nil)
	w.bds.behave(func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
	c := w.dial()
	if _, err := io.WriteString(c, post("/v1/join/1", offerOf(1))); err != nil {
		t.Fatal(err)
	}
	<-w.bds.asked
	_ = c.Close()
	if join := w.lastOver(1); join.Stage != joining.Failed {
		t.Errorf("%+v", join)
	}
}
