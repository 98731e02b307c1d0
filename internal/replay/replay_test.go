package replay

import (
	"bytes"
	"context"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/decode"
	"tidegate/internal/endpoint"
	"tidegate/internal/netio"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/await"
)

// codecs is the folder of the codecs, whose tests have captures of real peers.
const codecs = "../../codec"

// TestEveryProtocolIsPlayed wants a reader of each protocol's messages.
func TestEveryProtocolIsPlayed(t *testing.T) {
	for _, d := range protocols.All {
		if d.Overhear == nil {
			t.Errorf("%s cannot be played", d.Name)
		}
	}
}

// server is a game server that records all messages and answers with reply.
type server struct {
	*endpoint.Endpoint[struct{}]
	addr  netip.AddrPort
	opens []codec.Message                                        // sent to each new client
	reply func(n int, m codec.Message, send func(codec.Message)) // n counts the messages

	mu    sync.Mutex
	heard []codec.Message
}

func serve(t *testing.T, protocol codec.Protocol, s *server) *server {
	t.Helper()
	var err error
	s.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: s.event})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(protocol, netip.MustParseAddrPort("127.0.0.1:0"), netio.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && s.Turn(time.Time{}) == nil {
		}
	}()
	t.Cleanup(func() {
		stop()
		s.Wake()
		<-done
		_ = s.Close()
	})
	return s
}

func (s *server) event(c *endpoint.Conn[struct{}], e *codec.Event) {
	if e.Kind == codec.Connected {
		for i := range s.opens {
			_ = c.Send(s.Now(), s.opens[i])
		}
	}
	if e.Kind != codec.Received {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := e.Message
	m.Payload = bytes.Clone(m.Payload)
	s.heard = append(s.heard, m)
	s.reply(len(s.heard), m, func(r codec.Message) { _ = c.Send(s.Now(), r) })
}

func silent(int, codec.Message, func(codec.Message)) {}

// sorted returns the contents of messages in an order of their own: unordered messages may overtake each other.
func sorted(all []codec.Message) (texts []string) {
	for i := range all {
		texts = append(texts, all[i].Mode.String()+idOf(&all[i])+string(all[i].Payload))
	}
	slices.Sort(texts)
	return texts
}

// play replays a file.
func play(t *testing.T, path string, to netip.AddrPort, change func(*Options)) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	o := Options{To: to, Speed: 100, Wait: 100 * time.Millisecond}
	change(&o)
	return Run(ctx, path, o)
}

func unchanged(*Options) {}

// TestRealCaptures plays captures of real peers to a server of our own. It must get exactly the clients' messages.
func TestRealCaptures(t *testing.T) {
	files := os.DirFS(codecs)
	played := make(map[string]int)
	for _, c := range codectest.Captures(t, files) {
		d := protocols.Find(c.Protocol)
		if c.Stream || d.Overhear == nil || played[d.Name] == 6 {
			continue
		}
		path := unpacked(t, files, c.File)
		all, _, err := decode.Conversations(path, decode.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var want []codec.Message
		joins := 0
		var last *script
		for _, one := range all {
			s, err := newScript(one, "")
			if err != nil || !s.begins || s.end != byClient && s.end != open || len(s.said) == 0 {
				continue
			}
			joins, last = joins+1, s
			for i := range s.said {
				want = append(want, s.said[i].Message)
			}
		}
		if joins == 0 || joins != len(all) {
			continue
		}
		played[d.Name]++
		t.Run(c.File, func(t *testing.T) {
			s := &server{reply: silent}
			if last.numbers != nil { // clients name what the server has made
				for i := range last.heard {
					s.opens = append(s.opens, last.heard[i].Message)
				}
			}
			serve(t, last.protocol.NewLike(registry.Use{}, last.opening), s)
			report, err := play(t, path, s.addr, unchanged)
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := sorted(s.heard); !slices.Equal(got, sorted(want)) {
				t.Errorf("the server got %d messages, want %d; %+v", len(got), len(want), report)
			}
		})
	}
	for _, name := range []string{"riptide-2.2", "riptide-2.0", "raknet", "enet", "rudp", "rtype"} {
		if played[name] == 0 {
			t.Errorf("no capture of %s was played", name)
		}
	}
}

// unpacked writes a capture of the codecs' tests to a file.
func unpacked(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "capture.jsonl")
	if err := os.WriteFile(path, codectest.ReadCapture(t, files, name), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// scripted returns the player of a script with the messages of a client and the server's answers.
func scripted(heard ...codec.Message) *player {
	s := &script{
		of: &decode.Conversation{Client: "192.0.2.1:5"}, protocol: protocols.Find("raknet"), begins: true, end: byClient,
	}
	for _, m := range heard {
		s.heard = append(s.heard, line{0, m})
	}
	return &player{script: s, connected: time.Now(), ended: byClient, over: true}
}

func message(id byte, text string) codec.Message {
	return codec.Message{Payload: append([]byte{id}, text...), Mode: codec.ReliableOrdered}
}

// TestCompare finds each kind of difference, and no other.
func TestCompare(t *testing.T) {
	a, b, c := message(0x90, "a"), message(0x90, "b"), message(0x91, "c")
	loose, loose2 := a, b
	loose.Mode, loose2.Mode = codec.Unreliable, codec.Unreliable
	for what, step := range map[string]struct {
		captured, now []codec.Message
		end, ended    ending
		want          Comparison
	}{
		"nothing": {want: Comparison{Same: true}},
		"the same": {
			captured: []codec.Message{a, b, c}, now: []codec.Message{a, b, c},
			want: Comparison{Same: true},
		},
		"unordered ones": {
			captured: []codec.Message{loose, loose2}, now: []codec.Message{loose2, loose},
			want: Comparison{Same: true},
		},
		"another order": {
			captured: []codec.Message{a, b, c}, now: []codec.Message{a, c, b},
			want: Comparison{Order: 2},
		},
		"one is missing": {
			captured: []codec.Message{a, b, c}, now: []codec.Message{a, b},
			want: Comparison{IDs: []IDCount{{"0x91", 1, 0}}, Missing: make([]Content, 1)},
		},
		"one is new": {
			captured: []codec.Message{a}, now: []codec.Message{a, a},
			want: Comparison{IDs: []IDCount{{"0x90", 1, 2}}, New: make([]Content, 1)},
		},
		"another content": {
			captured: []codec.Message{a}, now: []codec.Message{b},
			want: Comparison{Missing: make([]Content, 1), New: make([]Content, 1)},
		},
		"kicked now":       {ended: byServer(codec.Kicked)},
		"kicked before":    {end: byServer(codec.Kicked)},
		"kicked both ways": {end: byServer(codec.Kicked), ended: byServer(codec.Kicked), want: Comparison{Same: true}},
		"the capture ends": {end: open, want: Comparison{Same: true}},
	} {
		p := scripted(step.captured...)
		p.answers = step.now
		if step.end != "" {
			p.end = step.end
		}
		if step.ended != "" {
			p.ended = step.ended
		}
		got := compare(p)
		if got.Same != step.want.Same || got.Order != step.want.Order || len(got.Missing) != len(step.want.Missing) ||
			len(got.New) != len(step.want.New) || !slices.Equal(got.IDs, step.want.IDs) ||
			got.Captured != len(step.captured) || got.Answered != len(step.now) {
			t.Errorf("%s: %+v, want %+v", what, got, step.want)
		}
	}
}

// enetConnect is a Connect of libenet.
const enetConnect = "8fff67db82ff00010000ffff00000578000100000000000200000000000000000000" +
	"1388000000020000000296009afd0000002a"

// TestNothingToPlay names the reason.
func TestNothingToPlay(t *testing.T) {
	for what, c := range map[string]struct{ capture, says string }{
		"unknown": {`{"from":"client","hex":"474554202f"}`, errNothing.Error()},
		"compressed": {`{"protocol":"enet"}` + "\n" + `{"from":"client","hex":"` + enetConnect + `"}` + "\n" +
			`{"from":"client","hex":"c0000000"}`, "enet: compressed ENet"},
		"only a ping": {`{"protocol":"riptide-2.2"}` + "\n" + `{"from":"client","hex":"08000000"}`,
			"neither joined nor sent"},
		"no capture": {"nothing", "not a capture"},
	} {
		path := filepath.Join(t.TempDir(), "capture")
		if err := os.WriteFile(path, []byte(c.capture), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := play(t, path, netip.MustParseAddrPort("127.0.0.1:9"), unchanged)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}
