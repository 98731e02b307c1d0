package bench

import (
	"math"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"tidegate/codec/rudp"
	"tidegate/internal/bench/process"
	"tidegate/internal/testkit/await"
)

func TestOptionsThatCannotBeMeasured(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{Size: 200, Rounds: 1, Window: time.Second}, "0 sessions"},
		{Options{Sessions: 9, Grow: 9, Size: 200, Rounds: 1, Window: time.Second}, "from 9 sessions to 9"},
		{Options{Sessions: 1, Size: 15, Rounds: 1, Window: time.Second}, "datagrams of 15 bytes"},
		{Options{Sessions: 1, Size: 200, Window: time.Second}, "0 rounds"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Flight: maxFlight + 1}, "16385 messages under way"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Burst: -1}, "-1 at a time"},
		{Options{Sessions: 1, Size: 200, Rounds: 1, Window: time.Second, Vs: []string{"apache"}}, `"apache"`},
	} {
		if _, err := Forward(&c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.says)
		}
	}
}

// TestLoad measures the echo itself, both ways: all that was sent comes back, and the timetable is kept.
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
	if err := l.greet(); err != nil {
		t.Fatal(err)
	}
	l.reset()
	if err := pace(l, 1000, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	// What takes longer than lostAfter, on a machine that has no time for it, does not count as back.
	if l.sent != 300 || l.back < 100 || l.delays.TotalCount() != int64(l.back) {
		t.Errorf("%d sent, %d back, %d timed; want 300 each", l.sent, l.back, l.delays.TotalCount())
	}
	l.reset()
	if err := saturate(l, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if l.back == 0 || l.sent > l.back+uint64(l.flight) || l.inFlight > l.flight {
		t.Errorf("%d sent, %d back, %d under way", l.sent, l.back, l.inFlight)
	}
}

// TestLoadOutlivesLoss: what does not come back is replaced.
func TestLoadOutlivesLoss(t *testing.T) {
	addr, err := process.FreeAddr(process.Loopback)
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
		t.Errorf("%d sent to nobody, %d back", l.sent, l.back)
	}
}

// TestGreetingsMissSomebody: whoever is never answered is missed.
func TestGreetingsMissSomebody(t *testing.T) {
	addr, err := process.FreeAddr(process.Loopback)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newDatagramLoad(5, minStamp, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.greet(); err == nil || !strings.Contains(err.Error(), "5 of 5 clients") {
		t.Errorf("nobody answered, and greet says %v", err)
	}
}

// TestGreetingsComeTogether: a client does all its greetings while few others do theirs, however many there are: a
// session whose client does not speak again soon is given up.
func TestGreetingsComeTogether(t *testing.T) {
	const clients = 20 * listenBatch
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(process.Loopback, 0)))
	if err != nil {
		t.Fatal(err)
	}
	came := make(map[netip.AddrPort][]int) // the places of each client's datagrams among all
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
			_, _ = server.WriteToUDPAddrPort(b[:n], from) // a lost one is sent again
		}
	}()
	l, err := newDatagramLoad(clients, minStamp, server.LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	err = l.greet()
	_ = server.Close()
	<-ended
	if err != nil || len(came) != clients {
		t.Fatalf("%d clients of %d came, %v", len(came), clients, err)
	}
	for from, at := range came {
		if len(at) > 1 && at[1]-at[0] > 3*listenBatch {
			t.Fatalf("%d datagrams of others came between the first two of %v", at[1]-at[0], from)
		}
	}
}

// TestGreetingsInTurn: answers that come late, all at once, are no proof that a client spoke again after one.
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
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 4}, 4}, {[]float64{8, 1, 4, 2}, 3}} {
		if got := median(c.of); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("median of %v = %v, want %v", c.of, got, c.want)
		}
	}
}

// TestRatios: what has a process is compared by its own time, the kernel's path by what it adds to direct.
func TestRatios(t *testing.T) {
	r := Result{Subjects: []Figures{
		{Name: "direct"},
		{Name: "tidegate", CPU: 600, CPUAll: 700, P99: 20, SessionMemory: 500},
		{Name: "tidegate-anyip", CPU: 500, CPUAll: 550, P99: 10, SessionMemory: 100},
		{Name: "tidegate-kernel", CPUAll: 50, P99: 5},
		{Name: "nginx", CPU: 1000, CPUAll: 1000, P99: 40, SessionMemory: 5000},
		{Name: "kernel-nat", CPUAll: 100, P99: 5},
	}}
	want := Ratios{Over: "nginx", CPU: 0.05, CPUUser: 0.5, Ways: []Ratio{
		{"tidegate", 0.6, 0.5, 0.1}, {"tidegate-anyip", 0.5, 0.25, 0.02}, {"tidegate-kernel", 0.05, 0.125, 0},
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

func TestAccounts(t *testing.T) {
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
		t.Errorf("%v of work are %v in the accounts", await.Patience, after-before)
	}
	if rss, err := process.RSS(os.Getpid()); err != nil || rss < 1<<20 {
		t.Errorf("%d bytes, %v", rss, err)
	}
}

// TestGames: what players of every protocol say comes back from a server of it.
func TestGames(t *testing.T) {
	for _, p := range speakers {
		if p.Spec().Name == "rudp" {
			p = rudp.New(rudp.Options{Rate: 20}) // which does not mind a busy machine so soon
		}
		t.Run(p.Spec().Name, func(t *testing.T) {
			server, err := startGame(p)
			if err != nil {
				t.Fatal(err)
			}
			defer server.stop()
			l, err := newGameLoad(p, 5, 100, server.addr())
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			if err := l.greet(); err != nil {
				t.Fatal(err)
			}
			l.keepsPace(t)
		})
	}
}

// TestBursts: each player in turn says as much as it is to say at a time, on a timetable of so many at a time.
func TestBursts(t *testing.T) {
	server, err := startGame(speakers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	l, err := newGameLoad(speakers[0], 3, 100, server.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.crowded(1000, 2)
	if l.flight != 1000 || l.patience < lostAfter {
		t.Errorf("%d under way, given up after %v", l.flight, l.patience)
	}
	if err := l.greet(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 1, 1, 2, 2, 0} {
		if l.send(time.Now()); l.next != want {
			t.Errorf("after %d messages player %d is next, want %d", i+1, l.next, want)
		}
	}
	l.keepsPace(t)
}

// keepsPace checks that all comes back of what players say by a timetable.
func (l *gameLoad) keepsPace(t *testing.T) {
	t.Helper()
	l.reset()
	l.patience = 10 * time.Second
	if err := pace(l, 500, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if l.sent != 100 || l.back != 100 {
		t.Errorf("%d sent, %d back; want 100 each", l.sent, l.back)
	}
}

// TestJoins: players come and leave, and others come in their place.
func TestJoins(t *testing.T) {
	server, err := startGame(speakers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	l, err := newJoinLoad(speakers[0], server.addr())
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
		t.Errorf("%d came, %d were let in", l.sent, l.back)
	}
	for give := time.Now().Add(await.Patience); l.endpoint.Len() > 0; {
		if err := l.turn(time.Now().Add(lostAfter / 5)); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(give) {
			t.Fatalf("%d are still there", l.endpoint.Len())
		}
	}
}

// TestMessages: a message's stamps are found again, also where messages were joined.
func TestMessages(t *testing.T) {
	for _, p := range speakers {
		f, books := formOf(p), newTraffic(1)
		b := make([]byte, 50)
		books.stamp(b[f.head:], books.begun)
		payload := f.message(b).Payload
		if p.Spec().Joins {
			payload = append(payload, payload...)
		}
		found := 0
		f.stamps(payload, func(stamp []byte) { found++; books.read(stamp) })
		if want := len(payload) / len(b); found != want || books.back != uint64(want) || books.inFlight != 0 {
			t.Errorf("%s: %d stamps of %d, %d back", p.Spec().Name, found, want, books.back)
		}
	}
}
