package signalling

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/joining"
	"tidegate/internal/testkit/await"
	"tidegate/ratelimit"
)

// edge is what the tests' answers name.
var edge = netip.MustParseAddrPort("203.0.113.9:19132")

// An offer and an answer, as short as they can be.
const (
	offerText = "v=0\r\no=- 1 2 IN IP4 198.51.100.7\r\ns=-\r\nt=0 0\r\na=identity:signed\r\n" +
		"m=application 4711 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 198.51.100.7\r\n" +
		"a=candidate:1 1 udp 1 198.51.100.7 4711 typ host\r\na=ice-ufrag:cli%d\r\na=ice-pwd:0123456789012345678901\r\n" +
		"a=fingerprint:sha-256 AA:BB\r\na=setup:actpass\r\n"
	answerText = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=identity:signed too\r\n" +
		"m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n" +
		"a=candidate:1 1 udp 1 %s 50001 typ host\r\na=ice-ufrag:srv%d\r\na=ice-pwd:abcdefghijabcdefghijab\r\n" +
		"a=fingerprint:sha-256 CC:DD\r\na=setup:active\r\n"
)

func offerOf(n int) string { return fmt.Sprintf(offerText, n) }

// bds is a server as Bedrock's: plain HTTP alone, no body without Content-Length, refusals with status 200.
type bds struct {
	addr   netip.AddrPort
	joins  atomic.Int32
	asked  chan heard   // of joins
	answer atomic.Value // func(http.ResponseWriter, *http.Request, int)
	slow   atomic.Int64 // the time.Duration that each answer takes
}

// heard is a request as it reached the server.
type heard struct {
	uri, host, body string
	header          http.Header
	length          int64
	remote          string
}

func startBDS(t *testing.T) *bds {
	t.Helper()
	l := listen(t)
	b := &bds{addr: addrOf(l.Addr()), asked: make(chan heard, 100)}
	b.behave(func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set("Content-Type", "application/sdp")
		_, _ = fmt.Fprintf(w, answerText, b.addr.Addr(), n)
	})
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(time.Duration(b.slow.Load()))
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"name":"BDS","query":%q}`, r.URL.RawQuery)
			return
		}
		n := int(b.joins.Add(1))
		h := heard{uri: r.RequestURI, host: r.Host, header: r.Header, length: r.ContentLength, remote: r.RemoteAddr}
		if r.ContentLength > 0 { // else it reads nothing
			body, _ := io.ReadAll(r.Body)
			h.body = string(body)
		}
		b.asked <- h
		b.answer.Load().(func(http.ResponseWriter, *http.Request, int))(w, r, n)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return b
}

// behave says how the server answers its joins, which are counted from 1.
func (b *bds) behave(answer func(w http.ResponseWriter, r *http.Request, n int)) {
	b.answer.Store(answer)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// world is a Server before a bds.
type world struct {
	t       *testing.T
	bds     *bds
	tickets *joining.Tickets
	server  *Server
	at      string
	cancel  context.CancelFunc // ends the Server

	mu   sync.Mutex
	now  time.Time
	over []joining.Join
}

// serve starts a Server. change may alter its options.
func serve(t *testing.T, change func(*Options)) *world {
	t.Helper()
	w := &world{t: t, bds: startBDS(t), now: start}
	o := Options{
		Route: "arena", Tickets: joining.NewTickets(joining.DefaultLimits, func(j joining.Join) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.over = append(w.over, j)
		}),
		Pick:       func(netip.Addr, bool, netip.AddrPort) (Backend, error) { return Backend{Addr: w.bds.addr}, nil },
		Candidates: func(netip.Addr) []netip.AddrPort { return []netip.AddrPort{edge} },
		Rates:      ratelimit.Rates{Overall: 10_000, Network: 10_000},
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
	}
	if change != nil {
		change(&o)
	}
	w.tickets, w.server = o.Tickets, New(o)
	l := listen(t)
	w.at = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	ended := make(chan error, 1)
	go func() { ended <- w.server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// lastOver waits for the end of a join, and returns it.
func (w *world) lastOver(n int) (last joining.Join) {
	w.t.Helper()
	await.Until(w.t, fmt.Sprintf("%d joins are over", n), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.over) < n {
			return false
		}
		last = w.over[n-1]
		return true
	})
	return last
}

// client is one connection.
type client struct {
	t *testing.T
	net.Conn
	reader *bufio.Reader
}

// from connects from an address of loopback.
func (w *world) from(host string) *client {
	w.t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).Dial("tcp", w.at)
	if err != nil {
		w.t.Skip(err) // not all systems have all of 127.0.0.0/8
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(await.Patience))
	return &client{w.t, c, bufio.NewReader(c)}
}

func (w *world) dial() *client {
	w.t.Helper()
	return w.from("127.0.0.1")
}

// result is a response with its body.
type result struct {
	status int
	header http.Header
	body   string
}

// send writes text, and reads a response. A connection that ends without one has status 0.
func (c *client) send(text string) result {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil && text != "" {
		return result{}
	}
	return c.receive()
}

func (c *client) receive() result {
	r, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return result{}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return result{}
	}
	return result{r.StatusCode, r.Header, string(body)}
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: play.example\r\n\r\n" }

// post is a request as Bedrock's client writes it.
func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: play.example\r\nConnection: Keep-Alive\r\n"+
		"User-Agent: libhttpclient/1.0.0.0\r\nContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
}

// chunked is post with a body in chunks of at most ten bytes.
func chunked(path, body string) string {
	var b strings.Builder
	b.WriteString("POST " + path + " HTTP/1.1\r\nHost: play.example\r\nTransfer-Encoding: chunked\r\n\r\n")
	for body != "" {
		n := min(10, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// wantSilentServer checks that no join has reached the server.
func (w *world) wantSilentServer() {
	w.t.Helper()
	if n := w.bds.joins.Load(); n != 0 {
		w.t.Errorf("the server heard of %d joins", n)
	}
	if u, s := w.tickets.Sizes(); u+s != 0 {
		w.t.Errorf("%d joins, %d sessions are left", u, s)
	}
}

// start is when the tests begin.
var start = time.Unix(1_800_000_000, 0)
