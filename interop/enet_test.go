//go:build interop

package interop_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lossylink"
)

// enetPeer is a library of ENet, or a program on it.
type enetPeer struct {
	name      string
	checksums bool // of datagrams
	packs     bool // it compresses; the library then dies of an empty message of its own game
	// ids is set for Godot. Each of its messages begins with the IDs of its sender and its receiver. A client chooses its
	// own ID at random, and names it in its Connect and in its goodbye.
	ids    bool
	client func(t *testing.T, port string) *peer
	server func(t *testing.T) *peer
}

// connectData is the data of a Connect. It is an ID to Godot.
const connectData = 0x2a5eed07

var (
	libenetPeer = enetScript("libenet", libenet, "enet_peer.py")
	summedPeer  = enetScript("libenet with checksums", libenet, "enet_peer.py", "checksums")
	packedPeer  = enetScript("libenet with compression", libenet, "enet_peer.py", "compress")
	packedGodot = godotPeer("godot with compression", "compress")
	enetPeers   = []enetPeer{
		libenetPeer,
		enetScript("rusty_enet", rust, "enet_peer.rs"),
		enetScript("npm enet", node, "enet_peer.js"),
		godotPeer("godot", ""),
	}
	// enetPairs lets each library be a client once and a server once.
	enetPairs = [][2]enetPeer{
		{enetPeers[0], enetPeers[1]},
		{enetPeers[1], enetPeers[2]},
		{enetPeers[2], enetPeers[3]},
		{enetPeers[3], enetPeers[0]},
		{summedPeer, summedPeer},
		{packedPeer, packedGodot},
		{packedGodot, packedPeer},
	}
)

// godotPeer compresses with the range coder, or does not.
func godotPeer(name, compress string) enetPeer {
	return enetPeer{
		name: name, ids: true,
		client: func(t *testing.T, port string) *peer { return startGodot(t, port, "client"+compress) },
		server: func(t *testing.T) *peer {
			p := startGodot(t, freePort(t), "server"+compress)
			p.awaitWithin(t, "listening", 3*patience)
			return p
		},
	}
}

func enetScript(name string, in *runtime, file string, flags ...string) enetPeer {
	return enetPeer{
		name: name, checksums: slices.Contains(flags, "checksums"), packs: slices.Contains(flags, "compress"),
		client: script(in, file, append([]string{"client", strconv.Itoa(connectData)}, flags...)...),
		server: server(in, file, append([]string{"server"}, flags...)...),
	}
}

// enetSession is a session between two libraries.
type enetSession struct {
	from, to       enetPeer
	client, server *peer
	between        *proxy
	door           string // the port where clients connect
	data           uint32 // of the Connect
	headed         bool   // one side's messages begin with IDs, and the test writes and reads them for the other
}

// meetENet connects two libraries through a proxy that speaks every protocol on the same port, over lossy paths.
func meetENet(t *testing.T, from, to enetPeer, loss float64) *enetSession {
	t.Helper()
	s := &enetSession{from: from, to: to, headed: from.ids != to.ids}
	by := route{protocol: "enet", transport: udp}
	if to.checksums {
		by.enet = `checksums = "on"`
	}
	weather := lossylink.Loss{ToServer: loss, ToClients: loss}
	s.server = to.server(t)
	by.host, by.server = lossy(t, "127.0.0.1:0", s.server.port, weather)
	s.between = startTidegate(t, by)
	_, s.door = lossy(t, "127.0.0.1:0", s.between.ports[udp], weather)
	s.join(t)
	return s
}

// join connects another client, and checks the data of its Connect.
func (s *enetSession) join(t *testing.T) {
	t.Helper()
	s.client = s.from.client(t, s.door)
	told := s.client.awaitWithin(t, "connected", 3*patience).Payload
	want := fmt.Sprintf("%08x", connectData)
	if s.from.ids {
		want = told
	}
	if got := s.server.await(t, "joined").Payload; got != want {
		t.Errorf("%s: the Connect's data is %s, want %s", s.server.name, got, want)
	}
	data, err := strconv.ParseUint(want, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	s.data = uint32(data)
}

// say has the client send a message. Godot keeps channel 0 for itself.
func (s *enetSession) say(t *testing.T, channel int, mode, payload string) {
	t.Helper()
	if s.headed && s.to.ids {
		head := binary.LittleEndian.AppendUint32(nil, s.data)
		payload = hex.EncodeToString(binary.LittleEndian.AppendUint32(head, 1)) + payload
	}
	s.client.order(t, order{Do: "send", Channel: channel, Mode: mode, Reliable: mode == "reliable", Payload: payload})
}

// heads is the length of the two IDs, in hex.
const heads = 16

// heard returns what an event at a side tells of a message, without the IDs of the other side.
func (s *enetSession) heard(t *testing.T, p *peer, own enetPeer, e event) string {
	t.Helper()
	if !s.headed || own.ids {
		return e.Payload
	}
	if len(e.Payload) < heads {
		t.Fatalf("%s: a message of %d bytes is too short for Godot's", p.name, len(e.Payload)/2)
	}
	return e.Payload[heads:]
}

// await returns the next message that arrives at the server, or the next echo that arrives at the client.
func (s *enetSession) await(t *testing.T, p *peer) (payload string, e event) {
	t.Helper()
	e = p.await(t, "received")
	own := s.from
	if p == s.server {
		own = s.to
	}
	return s.heard(t, p, own, e), e
}

// firstChannel is the first one that a game may use.
func (s *enetSession) firstChannel() int {
	if s.from.ids || s.to.ids {
		return 1
	}
	return 0
}

// enetChannels is how many channels each peer has.
const enetChannels = 4

// enetModes are the modes by the first byte of a message, from which Godot's server knows how to send the echo.
var enetModes = []string{"unsequenced", "unreliable", "reliable"}

// TestENet puts every library opposite every other: the Connect's data, each mode on each channel, an empty message, a
// message in fragments, and a goodbye's data in both directions.
func TestENet(t *testing.T) {
	summedRust := enetScript("rusty_enet with checksums", rust, "enet_peer.rs", "checksums")
	packedSum := enetScript("libenet with both", libenet, "enet_peer.py", "compress", "checksums")
	pairs := [][2]enetPeer{
		{summedPeer, libenetPeer}, {summedPeer, summedRust}, {summedRust, summedPeer},
		{packedPeer, libenetPeer}, {libenetPeer, packedPeer}, {packedSum, packedSum}, {packedGodot, packedGodot},
	}
	for _, from := range enetPeers {
		for _, to := range enetPeers {
			pairs = append(pairs, [2]enetPeer{from, to})
		}
	}
	for _, pair := range pairs {
		t.Run(pair[0].name+" to "+pair[1].name, func(t *testing.T) {
			t.Parallel()
			s := meetENet(t, pair[0], pair[1], 0)
			s.talk(t)
			s.leave(t)
			s.join(t)
			s.kick(t)
			s.between.stop(t)
		})
	}
}

func (s *enetSession) talk(t *testing.T) {
	t.Helper()
	for channel := s.firstChannel(); channel < enetChannels; channel++ {
		for i, mode := range enetModes {
			s.exchange(t, channel, mode, fmt.Sprintf("%02xc0ffee%02x", i, channel))
		}
	}
	if s.firstChannel() == 0 && !s.from.packs && !s.to.packs {
		s.exchange(t, 3, "reliable", "")
	}
	s.exchange(t, 2, "reliable", "02"+strings.Repeat("0123456789", 20_000)) // 100 KB
}

// exchange has the client send a message, and checks it at the server, and its echo.
func (s *enetSession) exchange(t *testing.T, channel int, mode, payload string) {
	t.Helper()
	s.say(t, channel, mode, payload)
	for _, p := range []*peer{s.server, s.client} {
		got, e := s.await(t, p)
		if got != payload || e.Channel != channel || e.Mode != mode && e.Mode != "" {
			t.Errorf("%s: %.20s of %d bytes came %s on channel %d, want %.20s of %d bytes, %s on channel %d",
				p.name, got, len(got)/2, e.Mode, e.Channel, payload, len(payload)/2, mode, channel)
		}
	}
}

// leave has the client say goodbye with data, and checks it at the server.
func (s *enetSession) leave(t *testing.T) {
	t.Helper()
	want := "0000004d"
	s.client.order(t, order{Do: "leave", Payload: want})
	switch {
	case s.to.ids:
		want = "00000000" // it does not tell its game
	case s.from.ids:
		want = fmt.Sprintf("%08x", s.data)
	}
	if got := s.server.await(t, "left").Payload; got != want {
		t.Errorf("%s: the goodbye's data is %s, want %s", s.server.name, got, want)
	}
}

// kick has the server say goodbye with data, and checks it at the client.
func (s *enetSession) kick(t *testing.T) {
	t.Helper()
	want := "0000004e"
	s.server.order(t, order{Do: "kick", Payload: want})
	if s.from.ids || s.to.ids {
		want = "00000000"
	}
	if got := s.client.await(t, "disconnected").Payload; got != want {
		t.Errorf("%s: the goodbye's data is %s, want %s", s.client.name, got, want)
	}
}

// TestENetPauses lets peers with raised time-outs stand still longer than the library's own ones allow, as games do
// while they load a level. The session goes on, as it does without a proxy.
func TestENetPauses(t *testing.T) {
	patient := enetScript("libenet with raised time-outs", libenet, "enet_peer.py", "patient")
	for _, who := range []string{"client", "server", "both"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := meetENet(t, patient, patient, 0)
			s.exchange(t, 0, "reliable", "02aa")
			sleepers := map[string][]*peer{"client": {s.client}, "server": {s.server}, "both": {s.client, s.server}}[who]
			for _, p := range sleepers {
				p.order(t, order{Do: "sleep", Payload: "c"}) // 12 s
			}
			for _, p := range sleepers {
				p.awaitWithin(t, "awake", 2*patience)
			}
			s.exchange(t, 0, "reliable", "02bb")
			s.leave(t)
		})
	}
}

// TestENetReturn kills a client three times. Another one starts on its port at once, and plays long before the old one
// would have timed out.
func TestENetReturn(t *testing.T) {
	server := libenetPeer.server(t)
	between := startTidegate(t, route{protocol: "enet", transport: udp, server: server.port})
	from := "from=" + freePort(t)
	start := func() *peer {
		client := startScript(t, libenet, "enet_peer.py", between.ports[udp], "client", "7", from)
		client.await(t, "connected")
		server.await(t, "joined")
		return client
	}
	client := start()
	for range 3 {
		if err := client.kill(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		client = start()
		took := time.Since(begun)
		t.Logf("in after %v, with the start of the program", took.Round(time.Millisecond))
		if took > 4*time.Second {
			t.Errorf("it took %v to return", took)
		}
		client.order(t, order{Do: "send", Mode: "reliable", Payload: "02aa"})
		client.await(t, "received")
	}
}

// TestENetLoss sends 10,000 reliable messages on all channels and their echoes through Tidegate, which loses 5 % of all
// datagrams on either side of it in each direction. They arrive exactly once, and in the order of their channel.
// Unreliable and unsequenced messages, and one of 100 KB, go beside them.
func TestENetLoss(t *testing.T) {
	for _, pair := range enetPairs {
		t.Run(pair[0].name+" to "+pair[1].name, func(t *testing.T) {
			t.Parallel()
			s := meetENet(t, pair[0], pair[1], 0.05)
			s.soak(t)
			s.kick(t)
		})
	}
}

// TestENetSlowServer lets each library send eight times the size of a route's queue to a server with a long path. The
// proxy slows it down. All messages arrive in order, and the session goes on.
func TestENetSlowServer(t *testing.T) {
	const messages, size = 4000, 1000
	for _, from := range enetPeers[:3] { // Godot's clients give their messages heads
		t.Run(from.name, func(t *testing.T) {
			t.Parallel()
			s := &enetSession{from: from, to: libenetPeer}
			s.server = s.to.server(t)
			by := route{protocol: "enet", transport: udp, failover: `queue = "512KiB"`}
			by.host, by.server = lossy(t, "127.0.0.1:0", s.server.port, lossylink.Loss{Delay: 40 * time.Millisecond})
			s.between = startTidegate(t, by)
			s.door = s.between.ports[udp]
			s.join(t)
			for i := range messages {
				head := binary.BigEndian.AppendUint32([]byte{2}, uint32(i))
				s.say(t, 1, "reliable", hex.EncodeToString(append(head, make([]byte, size)...)))
			}
			for _, p := range []*peer{s.server, s.client} {
				for i := range messages {
					payload, _ := s.await(t, p)
					if want := fmt.Sprintf("02%08x", i); !strings.HasPrefix(payload, want) || len(payload) != 2*(size+5) {
						t.Fatalf("%s: message %d is %.20s, %d bytes", p.name, i, payload, len(payload)/2)
					}
				}
			}
			s.leave(t)
		})
	}
}

// looseShare is how many reliable messages go for each pair of unreliable ones.
const looseShare = 10

func (s *enetSession) soak(t *testing.T) {
	t.Helper()
	const atOnce = 1000
	first := s.firstChannel()
	channels := enetChannels - first
	start := time.Now()
	tallies := map[*peer]*enetTally{s.server: newENetTally(s.server), s.client: newENetTally(s.client)}
	for sent, back := 0, 0; back < burst; {
		for ; sent < burst && sent < back+atOnce; sent++ {
			channel := first + sent%channels
			s.say(t, channel, "reliable", enetNumbered(2, sent))
			if sent%looseShare == 0 {
				s.say(t, channel, "unsequenced", enetNumbered(0, sent))
				s.say(t, channel, "unreliable", enetNumbered(1, sent))
			}
		}
		back++
		for p, tally := range tallies {
			for tally.reliable < back {
				payload, e := s.await(t, p)
				tally.take(t, payload, e, first, channels)
			}
		}
	}
	took := time.Since(start)
	const loose = 2 * burst / looseShare
	for p, tally := range tallies {
		// ENet drops unreliable messages of its own accord while a path is slow, most of them on a busy machine.
		if tally.loose < loose/50 {
			t.Errorf("%s: %d of %d unreliable messages came", p.name, tally.loose, loose)
		}
	}
	s.say(t, 2, "reliable", "02"+strings.Repeat("0123456789", 20_000))
	for _, p := range []*peer{s.server, s.client} {
		for {
			payload, _ := s.await(t, p)
			if len(payload) == 200_002 {
				break
			}
		}
	}
	t.Logf("%d reliable messages and their echoes took %v; of %d others %d arrived and %d came back", burst,
		took.Round(10*time.Millisecond), loose, tallies[s.server].loose, tallies[s.client].loose)
}

// enetNumbered returns message i of a mode, of 5 to 204 bytes.
func enetNumbered(mode byte, i int) string {
	b := binary.BigEndian.AppendUint32([]byte{mode}, uint32(i))
	return hex.EncodeToString(append(b, make([]byte, i%200)...))
}

// enetTally counts the numbered messages that arrive at a peer.
type enetTally struct {
	peer            *peer
	next            [enetChannels]int // reliable messages of each channel so far
	seen            map[string]bool   // unreliable ones
	reliable, loose int
}

func newENetTally(p *peer) *enetTally { return &enetTally{peer: p, seen: make(map[string]bool)} }

// take counts a message. A reliable one is the next of its channel, and another one has not come before.
func (y *enetTally) take(t *testing.T, payload string, e event, first, channels int) {
	t.Helper()
	mode, i := -1, -1
	if b, err := hex.DecodeString(payload); err == nil && len(b) >= 5 {
		mode, i = int(b[0]), int(binary.BigEndian.Uint32(b[1:]))
	}
	switch {
	case mode < 0 || mode > 2 || payload != enetNumbered(byte(mode), i) || e.Channel != first+i%channels:
		t.Fatalf("%s: %.20s came on channel %d; no peer sent it", y.peer.name, payload, e.Channel)
	case enetModes[mode] == "reliable":
		if want := e.Channel - first + y.next[e.Channel]*channels; i != want {
			t.Fatalf("%s: channel %d has message %d, want %d", y.peer.name, e.Channel, i, want)
		}
		y.next[e.Channel]++
		y.reliable++
	case y.seen[payload]:
		t.Fatalf("%s: %s message %d came twice", y.peer.name, enetModes[mode], i)
	default:
		y.seen[payload] = true
		y.loose++
	}
}

// TestENetQueries: a server on libenet answers getinfo beside its players, as FiveM does. A browser at Tidegate gets
// the answer with its own challenge, while a player plays on the same port.
func TestENetQueries(t *testing.T) {
	asked := enetScript("libenet with queries", libenet, "enet_peer.py", "queries")
	s := meetENet(t, libenetPeer, asked, 0)
	conn, err := net.Dial("udp", net.JoinHostPort("127.0.0.1", s.door))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make([]byte, 1500)
	deadline := time.Now().Add(patience)
	for i := 0; ; i++ {
		word := fmt.Sprint("word", i)
		if _, err := conn.Write([]byte("\xff\xff\xff\xffgetinfo " + word)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		n, err := conn.Read(answer)
		want := `infoResponse` + "\n" + `\clients\1\challenge\` + word + `\gamename\CitizenFX`
		if err == nil && strings.HasSuffix(string(answer[:n]), want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q, %v, want %q", answer[:n], err, want)
		}
	}
	s.exchange(t, 1, "reliable", "02aa")
	s.leave(t)
}
