//go:build interop

package interop_test

import (
	"encoding/hex"
	"net"
	"slices"
	"testing"
	"time"
)

// The original RakNet 4.081 in C++, protocol 6, as most games ship it.
var (
	// stockClient joins the parts of a large message in the order in which they arrive.
	stockClient = contender{name: "stock", transport: udp, dialect: "raknet", language: language{unreliable: true},
		client: script(stock, "stock_client.py")}
	stockServer = contender{name: "stock", transport: udp, protocol: "raknet", server: server(stock, "stock_server.py")}

	// The same library as Minecraft ships it, protocol 11.
	stock11Client = contender{name: "stock 11", transport: udp, language: language{unreliable: true},
		client: script(stock11, "stock_client.py")}
	stock11Server = contender{name: "stock 11", transport: udp, protocol: "bedrock",
		server: server(stock11, "stock_server.py")}
)

// TestStock: the original library as client and as server, opposite itself and others.
func TestStock(t *testing.T) {
	for _, pair := range []struct{ from, to contender }{
		{stockClient, stockServer},
		{stockClient, goServer},
		{stockClient, cloudburstServer},
		{goClient, stockServer},
		{cloudburstClient, stockServer},
		{stockClient, pytideServers[0]},
		{pytideClients[0], stockServer},
		{stock11Client, stock11Server},
		{stock11Client, goServer},
		{goClient, stock11Server},
		{stockClient, stock11Server},
		{stock11Client, stockServer},
	} {
		t.Run(pair.from.name+" to "+pair.to.name, func(t *testing.T) {
			client, between, server := meet(t, pair.from, pair.to)
			language := pair.from.language
			language.largest = largestRiptide
			language.bridged = pair.to.protocol == "riptide-2.2"
			talk(t, client, language)
			sayGoodbye(t, between, client, server)
		})
	}
}

// stockMap has the packets of stock_game.py, in both directions.
const stockMap = `undeclared = "end"
[[route.map]]
client = "1"
server = "0x87"
[[route.map]]
client = "2"
server = "0x88"
[[route.map]]
client = "3"
server = "0x89"
from = "client"
mode = "reliable-ordered"
channel = 7
[[route.map]]
client = "4"
server = "0x8a"
from = "upstream"
mode = "unreliable"
[[route.map]]
client = "100-199"
server = "0x90 0-99:u16be"
`

// TestUnchangedStockServer: a Riptide game plays on a server of the original library that reads its own packets, by a
// map. A message that the server does not know ends the session.
func TestUnchangedStockServer(t *testing.T) {
	game := stockServer
	game.server = server(stock, "stock_game.py")
	client, between, server := meetBy(t, pytideClients[0], game, route{failover: stockMap})
	for _, c := range []struct {
		id, answer   uint16
		says, packet string
		hears        string
		unreliable   bool // the answer
	}{
		{1, 2, "6869", "876869", "796f7520736179206869", false},
		{3, 4, "3f80000040000000", "893f80000040000000", "4000000040000000", true},
		{142, 143, "c0ffee", "90002ac0ffee", "c0ffee", false},
	} {
		client.order(t, order{Do: "send", ID: c.id, Reliable: true, Payload: c.says})
		if got := server.await(t, "received").Payload; got != c.packet {
			t.Errorf("the server got %s, want %s", got, c.packet)
		}
		got := client.await(t, "received")
		if got.ID != c.answer || got.Payload != c.hears || got.Reliable == c.unreliable {
			t.Errorf("the client got %+v, want message %d of %s", got, c.answer, c.hears)
		}
	}
	client.order(t, order{Do: "send", ID: 9, Reliable: true, Payload: "00"})
	if e := between.await(t, "session ended"); e.By != "proxy" {
		t.Errorf("the session ended by %s, want by the proxy", e.By)
	}
	client.await(t, "disconnected")
	server.await(t, "left")
}

// TestStockTimes: a time that the original library sends arrives as one of the receiver's clock, in both directions.
// The message is the time alone, or has more behind it.
func TestStockTimes(t *testing.T) {
	for _, pair := range []struct{ from, to contender }{
		{stockClient, stockServer},
		{stock11Client, stock11Server},
		{stockClient, stock11Server},
	} {
		t.Run(pair.from.name+" to "+pair.to.name, func(t *testing.T) {
			client, _, server := meet(t, pair.from, pair.to)
			wantTimes(t, client, server)
		})
	}
	t.Run("directly", func(t *testing.T) {
		server := stock11Server.server(t)
		client := stock11Client.client(t, server.port)
		client.await(t, "connected")
		wantTimes(t, client, server)
	})
}

// TestStockPriorities: many ordered messages at once, and one of a higher priority behind them, which leaves first. All
// arrive in order, in both directions.
func TestStockPriorities(t *testing.T) {
	client, _, server := meet(t, stockClient, stockServer)
	client.order(t, order{Do: "burst", ID: burst})
	wantBurst(t, server, burst)
	wantBurst(t, client, burst)
	server.order(t, order{Do: "burst", ID: burst})
	wantBurst(t, client, burst)
}

// wantTimes sends times to a server, which answers with its own. Each clock begins when its process starts.
func wantTimes(t *testing.T, client, server *peer) {
	t.Helper()
	for _, behind := range []string{"", "86", "86c0ffee"} {
		client.order(t, order{Do: "stamp", Payload: behind})
		for _, p := range []*peer{server, client} {
			e := p.await(t, "stamped")
			if e.Payload != behind || e.Age < -mostAge || e.Age > mostAge {
				t.Errorf("%s: a time with %q behind it is %d ms old, with %q", p.name, behind, e.Age, e.Payload)
			}
		}
	}
}

// mostAge is the largest age of a time, in milliseconds, on a busy machine. A time that is not converted is 57 years
// old, since Tidegate's clock is the calendar's.
const mostAge = 5000

// What a stock client tells its game by the first byte of a message.
const (
	attemptFailed     = 17
	noFreeConnections = 20
	connectionBanned  = 23
	otherVersion      = 25
)

// stockRefusals are stock servers that refuse, and what their clients are told.
var stockRefusals = []struct {
	name   string
	server func(t *testing.T) (port string)
	want   int
}{
	{"full", fullStockServer, noFreeConnections},
	{"banned", banningStockServer, connectionBanned},
	{"another version", otherStockServer, otherVersion},
	{"no server", freePort, attemptFailed},
}

// TestStockRefusals: a stock client hears of a server's refusal through Tidegate what it hears directly.
func TestStockRefusals(t *testing.T) {
	for _, c := range stockRefusals {
		for _, way := range []struct {
			name      string
			through   bool
			noCookies bool
		}{{"directly", false, false}, {"through Tidegate", true, false}, {"through Tidegate without cookies", true, true}} {
			t.Run(c.name+"/"+way.name, func(t *testing.T) {
				port := c.server(t)
				if way.through {
					to := route{protocol: "raknet", transport: udp, server: port, players: "raknet", noCookies: way.noCookies}
					port = startTidegate(t, to).ports[udp]
				}
				client := startScript(t, stock, "stock_client.py", port)
				if got := client.await(t, "refused").Reason; got != c.want {
					t.Errorf("the client was told %d, want %d", got, c.want)
				}
			})
		}
	}
}

// otherStockServer speaks version 7, which no client of ours does.
func otherStockServer(t *testing.T) (port string) {
	t.Helper()
	return startServer(t, stock, "stock_server.py", "10", "7").port
}

// fullStockServer has a client, and no place for another.
func fullStockServer(t *testing.T) (port string) {
	t.Helper()
	server := startServer(t, stock, "stock_server.py", "1")
	startScript(t, stock, "stock_client.py", server.port).await(t, "connected")
	server.await(t, "joined")
	return server.port
}

// banningStockServer has banned our address for 10 s, as a stock server does when a client's first message is no
// connection request.
func banningStockServer(t *testing.T) (port string) {
	t.Helper()
	server := startServer(t, stock, "stock_server.py")
	s := newStranger(t, server.port)
	s.request1(t)
	s.request2(t, nil)
	ping := slices.Concat([]byte{1}, make([]byte, 8), magic, make([]byte, 8))
	for s.ask(t, ping)[0] != connectionBanned {
		s.say(t, unhex(t, "84000000"+"40"+"0008"+"000000"+"86"))
	}
	return server.port
}

// TestStockGUID: the GUID that a stock client takes from the second reply for the server's is the server's own.
func TestStockGUID(t *testing.T) {
	server := startServer(t, stock, "stock_server.py")
	between := startTidegate(t, route{protocol: "raknet", transport: udp, server: server.port, players: "raknet"})
	direct, through := newStranger(t, server.port), newStranger(t, between.ports[udp])
	want := direct.request1(t)[17:25]
	got := through.request2(t, through.request1(t)[26:30])
	if got[0] != 8 || !slices.Equal(got[17:25], want) {
		t.Errorf("the second reply is %x, want one of server %x", got, want)
	}
}

// stranger speaks RakNet by single datagrams.
type stranger struct{ conn net.Conn }

var magic, _ = hex.DecodeString("00ffff00fefefefefdfdfdfd12345678")

func newStranger(t *testing.T, port string) stranger {
	t.Helper()
	conn, err := net.Dial("udp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return stranger{conn}
}

func (s stranger) say(t *testing.T, datagram []byte) {
	t.Helper()
	if _, err := s.conn.Write(datagram); err != nil {
		t.Fatal(err)
	}
}

// ask says something until it is answered.
func (s stranger) ask(t *testing.T, datagram []byte) []byte {
	t.Helper()
	answer := make([]byte, 2000)
	for range 10 {
		s.say(t, datagram)
		_ = s.conn.SetReadDeadline(time.Now().Add(patience / 10))
		if n, err := s.conn.Read(answer); err == nil {
			return answer[:n]
		}
	}
	t.Fatalf("no answer to %.20x", datagram)
	return nil
}

func (s stranger) request1(t *testing.T) []byte {
	t.Helper()
	return s.ask(t, slices.Concat([]byte{5}, magic, []byte{6}, make([]byte, 1400)))
}

func (s stranger) request2(t *testing.T, cookie []byte) []byte {
	t.Helper()
	if cookie != nil {
		cookie = append(slices.Clone(cookie), 0) // no challenge
	}
	return s.ask(t, slices.Concat([]byte{7}, magic, cookie, unhex(t, "0480fffffe"+"1234"+"05d4"+"0000000000000063")))
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
