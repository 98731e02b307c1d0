package scenario

import (
	"encoding/json"
	"math"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/rudp"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy/bridge"
	"tidegate/tools/bench/process"
)

func TestInvalidOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{Size: 200, Rounds: 1, Window: time.Second}, "0 sessions"},
		{Options{Sessions: 9, Idle: -1, Size: 200, Rounds: 1, Window: time.Second}, "-1 idle sessions"},
		{Options{Sessions: 9, Grow: 9, Size: 200, Rounds: 1, Window: time.Second}, "from 9 sessions to 9"},
		{Options{Sessions: 1, Size: 15, Rounds: 1, Window: time.Second}, "datagrams of 15 bytes"},
		{Options{Sessions: 1, Size: 200, Window: time.Second}, "0 rounds"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Flight: maxFlight + 1}, "16385 messages in flight"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Burst: -1}, "-1 at once"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Loops: 65}, "65 loops"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Vs: []string{"apache"}}, `"apache"`},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Path: time.Minute}, "a path of 1m0s"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Loss: math.NaN()}, "that loses NaN"},
	} {
		if _, err := Forward(&c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.says)
		}
	}
}

// TestLoad measures the echo server itself with both kinds of load. All datagrams return, and the timetable is kept.
func TestLoad(t *testing.T) {
	server, err := startEcho()
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	l, err := newDatagramLoad(20, 100, server.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	l.reset()
	if err := pace(l, 1000, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	// On a busy machine, datagrams that take longer than lostAfter do not count as returned.
	if l.sent != 300 || l.back < 100 || l.delays.TotalCount() != int64(l.back) {
		t.Errorf("%d sent, %d returned, %d timed; want 300 each", l.sent, l.back, l.delays.TotalCount())
	}
	l.reset()
	if err := saturate(l, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if l.back == 0 || l.sent > l.back+uint64(l.flight) || l.inFlight > l.flight {
		t.Errorf("%d sent, %d returned, %d in flight", l.sent, l.back, l.inFlight)
	}
}

// TestLoadOutlivesLoss replaces datagrams that do not return.
func TestLoadOutlivesLoss(t *testing.T) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newDatagramLoad(1, minStamp, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := saturate(l, 3*lostAfter); err != nil {
		t.Fatal(err)
	}
	if l.sent <= uint64(l.flight) || l.back != 0 {
		t.Errorf("%d sent to a closed port, %d returned", l.sent, l.back)
	}
}

// TestOpenWithoutAnswers fails to open sessions of a server that never answers.
func TestOpenWithoutAnswers(t *testing.T) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newDatagramLoad(5, minStamp, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.open(); err == nil || !strings.Contains(err.Error(), "5 of 5 clients") {
		t.Errorf("without answers: %v", err)
	}
}

// TestGreetingsComeTogether lets a client complete all greetings while only few others greet: a proxy gives up a
// session whose client does not send again soon.
func TestGreetingsComeTogether(t *testing.T) {
	const clients = 20 * greetBatch
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(process.Loopback, 0)))
	if err != nil {
		t.Fatal(err)
	}
	came := make(map[netip.AddrPort][]int) // positions of each client's datagrams in the order of arrival
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 100)
		for i := 0; ; i++ {
			n, from, err := server.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			came[from] = append(came[from], i)
			_, _ = server.WriteToUDPAddrPort(b[:n], from) // a lost datagram is sent again
		}
	}()
	l, err := newDatagramLoad(clients, minStamp, server.LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	err = l.open()
	_ = server.Close()
	<-ended
	if err != nil || len(came) != clients {
		t.Fatalf("%d clients of %d came, %v", len(came), clients, err)
	}
	for from, at := range came {
		if len(at) > 1 && at[1]-at[0] > 3*greetBatch {
			t.Fatalf("%d datagrams of others came between the first two of %v", at[1]-at[0], from)
		}
	}
}

// TestGreetingsInTurn counts late answers that come all at once only once: they do not prove that the client sent
// again after an answer.
func TestGreetingsInTurn(t *testing.T) {
	var g greeting
	for n := range uint64(greetings) {
		g.last = n
	}
	for n := range uint64(greetings) {
		g.answer(n)
		g.answer(n)
	}
	if g.answers != 1 {
		t.Errorf("%d answers count, want 1", g.answers)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 4}, 4}, {[]float64{8, 1, 4, 2}, 3}} {
		if got := median(c.values); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("median of %v = %v, want %v", c.values, got, c.want)
		}
	}
}

// TestRatios compares subjects with a process by their own time, and the kernel's fast path by the time it adds to
// direct.
func TestRatios(t *testing.T) {
	r := Result{Subjects: []Figures{
		{Name: "direct"},
		{Name: "tidegate", CPU: 600, CPUAll: 700, P99: 20, SessionMemory: 500},
		{Name: "tidegate-source-prefix", CPU: 500, CPUAll: 550, P99: 10, SessionMemory: 100},
		{Name: "tidegate-kernel", CPUAll: 50, P99: 5},
		{Name: "nginx", CPU: 1000, CPUAll: 1000, P99: 40, SessionMemory: 5000},
		{Name: "kernel-nat", CPUAll: 100, P99: 5},
	}}
	want := Ratios{Over: "nginx", CPU: 0.05, CPUUser: 0.5, Setups: []Ratio{
		{Setup: "tidegate", CPU: 0.6, P99: 0.5, Memory: 0.1},
		{Setup: "tidegate-source-prefix", CPU: 0.5, P99: 0.25, Memory: 0.02},
		{Setup: "tidegate-kernel", CPU: 0.05, P99: 0.125},
	}}
	if got := r.ratios(&r.Subjects[4]); !reflect.DeepEqual(got, want) {
		t.Errorf("over nginx %+v, want %+v", got, want)
	}
	more := []Figures{{Name: "tidegate, 50", CPU: 660}, {Name: "tidegate-kernel, 50", CPUAll: 100}}
	for i, want := range []float64{1.1, 2} {
		if got := growth(r.Subjects, &more[i]); got.CPU != want {
			t.Errorf("%+v, want %v", got, want)
		}
	}
	if got := r.ratios(&r.Subjects[5]); got.CPU != 0.5 || got.CPUUser != 5.5 {
		t.Errorf("over kernel-nat %+v", got)
	}
}

func TestUsage(t *testing.T) {
	before, err := process.CPUTime(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	var after time.Duration
	for end := time.Now().Add(await.Patience); after-before < time.Millisecond && time.Now().Before(end); {
		if after, err = process.CPUTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if after-before < time.Millisecond {
		t.Errorf("%v of work count as %v", await.Patience, after-before)
	}
	if rss, err := process.RSS(os.Getpid()); err != nil || rss < 1<<20 {
		t.Errorf("%d bytes, %v", rss, err)
	}
}

// TestGames sends messages of every protocol to a game server and gets them back.
func TestGames(t *testing.T) {
	for _, p := range messageProtocols {
		if p.Spec().Name == "rudp" {
			p = rudp.New(rudp.Options{Rate: 20}) // a busy machine tolerates this rate longer
		}
		t.Run(p.Spec().Name, func(t *testing.T) {
			server, err := startGame(p)
			if err != nil {
				t.Fatal(err)
			}
			defer server.stop()
			l, err := newGameLoad(p, p, 5, 100, server.addr())
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			if err := l.open(); err != nil {
				t.Fatal(err)
			}
			l.keepsPace(t)
		})
	}
}

// TestBursts lets each client in turn send a burst, on a timetable of bursts.
func TestBursts(t *testing.T) {
	server, err := startGame(messageProtocols[0])
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	l, err := newGameLoad(messageProtocols[0], messageProtocols[0], 3, 100, server.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.setLimits(1000, 2)
	if l.flight != 1000 || l.patience < lostAfter {
		t.Errorf("%d in flight, lost after %v", l.flight, l.patience)
	}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 1, 1, 2, 2, 0} {
		if l.send(time.Now()); l.next != want {
			t.Errorf("after %d messages client %d is next, want %d", i+1, l.next, want)
		}
	}
	l.keepsPace(t)
}

// keepsPace checks that all messages of a timetable return.
func (l *gameLoad) keepsPace(t *testing.T) {
	t.Helper()
	l.reset()
	l.patience = 10 * time.Second
	if err := pace(l, 500, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if l.sent != 100 || l.back != 100 {
		t.Errorf("%d sent, %d returned; want 100 each", l.sent, l.back)
	}
}

// TestJoins connects clients that leave again, and new ones in their place.
func TestJoins(t *testing.T) {
	server, err := startGame(messageProtocols[0])
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	l, err := newJoinLoad(messageProtocols[0], server.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for give := time.Now().Add(await.Patience); l.back < 2*joinsInFlight && time.Now().Before(give); {
		if err := saturate(l, 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if l.back < 2*joinsInFlight || l.sent > l.back+joinsInFlight {
		t.Errorf("%d clients started, %d connected", l.sent, l.back)
	}
	for give := time.Now().Add(await.Patience); l.endpoint.Len() > 0; {
		if err := l.turn(time.Now().Add(lostAfter / 5)); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(give) {
			t.Fatalf("%d connections are left", l.endpoint.Len())
		}
	}
}

// TestMessages sends a message of each protocol through the bridge to a server of each protocol and back, as
// bridgeConfig configures it, and finds its stamp again. A protocol that joins messages carries two at once.
func TestMessages(t *testing.T) {
	for _, from := range messageProtocols {
		for _, to := range messageProtocols {
			options := envelopes(from.Spec(), to.Spec())
			near := bridge.WrappingOf(from.Spec(), to.Spec(), options)
			far := bridge.WrappingOf(to.Spec(), from.Spec(), options)
			f, stats := formOf(from, to), newTraffic(1)
			body := make([]byte, 50)
			stats.stamp(body, stats.epoch)
			m := f.message(body)
			m.Payload = slices.Clone(m.Payload)
			want := 1
			if from.Spec().Joins {
				m.Payload, want = append(m.Payload, m.Payload...), 2
			}
			found := 0
			err := near.Unwrap(m, func(one codec.Message) {
				echo := far.Wrap(nil, one)
				err := far.Unwrap(echo, func(back codec.Message) {
					back = near.Wrap(nil, back)
					f.stamps(&back, func(m codec.Message) { found++; stats.read(m.Payload) })
				})
				if err != nil {
					t.Errorf("%s to %s: from the server: %v", from.Spec().Name, to.Spec().Name, err)
				}
			})
			if err != nil || found != want || stats.back != uint64(want) || stats.inFlight != 0 {
				t.Errorf("%s to %s: %d stamps of %d, %d returned, %v", from.Spec().Name, to.Spec().Name, found, want, stats.back,
					err)
			}
		}
	}
}

// TestNothingReturned makes figures of a round in which nothing came back. They are JSON, and the subject is named.
func TestNothingReturned(t *testing.T) {
	lost := []round{{sent: 100, own: 5, all: 7, took: time.Second}}
	sc := &scenario{Result: Result{Sessions: 1}, each: 2}
	whole := []round{{sent: 100, back: 100, all: 1, took: time.Second}}
	sc.conclude([]*measured{{kind: kind{name: "direct"}, rounds: whole},
		{kind: kind{name: "tidegate"}, rounds: lost, ownProcess: true},
		{kind: kind{name: "nginx"}, rounds: lost, ownProcess: true}})
	if _, err := json.Marshal(sc.Result); err != nil {
		t.Error(err)
	}
	var text strings.Builder
	if err := sc.Print(&text); err != nil || strings.Contains(text.String(), "Inf") ||
		!strings.Contains(text.String(), "tidegate lost more than 5 %") {
		t.Errorf("%v\n%s", err, text.String())
	}
}
