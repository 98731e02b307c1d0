package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/module"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/heavy"
	"tidegate/proxy/bridge"
)

// played is a module of the examples in one loop.
type played struct {
	bridge.Module
	state []byte
	says  []string
}

func load(t *testing.T, file string) *played {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	one := new(played)
	p, err := module.Compile(content, module.Options{Memory: 64 << 20, Time: time.Minute,
		Log: func(_ uint64, text []byte, _ uint64) { one.says = append(one.says, string(text)) }}, 1)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	one.Module = p.Loop(0)
	return one
}

// hear gives the module a message, and returns what goes on in its place.
func (p *played) hear(t *testing.T, at time.Time, from policy.Direction, m codec.Message) (all []bridge.Sent) {
	t.Helper()
	c := bridge.Call{Now: at, From: from, Session: 1, Message: &m, State: &p.state}
	passes, err := p.Handle(&c)
	if err != nil {
		t.Fatal(err)
	}
	if all = slices.Clone(c.Sent); passes {
		all = append(all, bridge.Sent{From: from, Message: m})
	}
	return all
}

// testChat plays a chat filter.
func testChat(t *testing.T, file string) {
	t.Helper()
	p := load(t, file)
	for _, c := range []struct {
		id         uint16
		text, want string
	}{
		{1, "well played", "well played"}, {1, "a BadWord, badword", "a *******, *******"}, {1, "bad", "bad"}, {1, "", ""},
		{2, "badword", "badword"}, {1, "badword", "*******"}, {1, "badwor", "badwor"},
	} {
		m := codec.Message{Mode: codec.Reliable, Channel: 3, ID: c.id, HasID: true, Payload: []byte(c.text)}
		got := p.hear(t, time.Now(), policy.FromUpstream, m)
		if len(got) != 1 || string(got[0].Message.Payload) != c.want || got[0].Message.ID != c.id ||
			got[0].From != policy.FromUpstream || got[0].Message.Channel != 3 || got[0].Message.Mode != codec.Reliable {
			t.Errorf("%q crosses as %+v, want %q", c.text, got, c.want)
		}
	}
	if want := "a word is hidden"; !slices.Equal(p.says, []string{want, want}) {
		t.Errorf("the log has %q", p.says)
	}
}

// TestModulesInEveryLanguage builds the chat filter with each compiler at hand, and the C modules again.
func TestModulesInEveryLanguage(t *testing.T) {
	for _, c := range []struct {
		language string
		command  []string // the last argument is the file that it makes
		env      []string
	}{
		{"Go", []string{"go", "build", "-buildmode=c-shared", "-o"}, []string{"GOOS=wasip1", "GOARCH=wasm"}},
		{"Rust", []string{"rustc", "--target", "wasm32-unknown-unknown", "--crate-type", "cdylib", "-C", "opt-level=2",
			"modules/chat.rs", "-o"}, nil},
		{"C", []string{"clang", "--target=wasm32", "-O2", "-nostdlib", "-Wl,--no-entry", "-Wall", "-Wextra", "-Werror",
			"modules/chat.c", "-o"}, nil},
		{"AssemblyScript", []string{"asc", "modules/chat.ts", "--runtime", "stub", "--use", "abort=", "-O", "-o"}, nil},
	} {
		t.Run(c.language, func(t *testing.T) {
			if c.language == "Go" && !heavy.Runs() {
				t.Skip("it compiles Go's library")
			}
			if _, err := exec.LookPath(c.command[0]); err != nil {
				t.Skip(err)
			}
			made := filepath.Join(t.TempDir(), "chat.wasm")
			args := append(c.command[1:], made)
			if c.language == "Go" {
				args = append(args, "./modules/chat")
			}
			cmd := exec.Command(c.command[0], args...)
			cmd.Env = append(os.Environ(), c.env...)
			if out, err := cmd.CombinedOutput(); err != nil {
				if text := string(out); strings.Contains(text, "may not be installed") || strings.Contains(text, "wasm-ld") {
					t.Skip("the compiler has no target for WebAssembly")
				}
				t.Fatalf("%v\n%s", err, out)
			}
			testChat(t, made)
		})
	}
}

// TestModulesOfTheTutorial plays the modules that are in the repository, each by itself.
func TestModulesOfTheTutorial(t *testing.T) {
	testChat(t, "modules/chat.wasm")
	rate, begin, passed := load(t, "modules/rate.wasm"), time.Unix(1_000_000, 0), 0
	for i := range 40 { // 4 seconds
		shot := codec.Message{ID: 3, HasID: true, Payload: []byte("shot")}
		passed += len(rate.hear(t, begin.Add(time.Duration(i)*100*time.Millisecond), policy.FromClient, shot))
	}
	if passed != 20 || len(rate.state) == 0 {
		t.Errorf("%d shots pass in 4 s, want 20; %d bytes are kept", passed, len(rate.state))
	}
	unchanged := load(t, "modules/unchanged.wasm")
	for _, c := range []struct {
		from       policy.Direction
		id         int // -1: none
		text, want string
		wantID     int
	}{
		{policy.FromClient, 1, "hello", "\x87\x00\x05hello", -1}, {policy.FromClient, 9, "move", "\x99move", -1},
		{policy.FromUpstream, -1, "\x87\x00\x02hi", "hi", 1}, {policy.FromUpstream, -1, "\x92x", "x", 2},
	} {
		m := codec.Message{ID: uint16(max(c.id, 0)), HasID: c.id >= 0, Payload: []byte(c.text)}
		got := unchanged.hear(t, begin, c.from, m)
		if len(got) != 1 || string(got[0].Message.Payload) != c.want || got[0].Message.HasID != (c.wantID >= 0) ||
			int(got[0].Message.ID) != max(c.wantID, 0) || got[0].From != c.from {
			t.Errorf("%q crosses as %+v, want %q", c.text, got, c.want)
		}
	}
	for _, text := range []string{"", "\x87", "\x87\x00\x09short", "\x01"} {
		if got := unchanged.hear(t, begin, policy.FromUpstream, codec.Message{Payload: []byte(text)}); len(got) != 0 {
			t.Errorf("%q crosses as %+v", text, got)
		}
	}
}

// TestModulesInTidegate plays the tutorial's modules in the real program. The server hears its own packets.
func TestModulesInTidegate(t *testing.T) {
	s := perform(t, "modules.toml")
	var heard []string
	s.servers["127.0.0.1:19132"].answer = func(packet []byte) []byte {
		heard = append(heard, string(packet))
		return packet
	}
	c := s.dial(t, "public", "riptide-2.2")
	s.until(t, "connected", func() bool { return c.Value.connected })
	chat := codec.Message{Payload: []byte("you badword"), ID: 1, Mode: codec.Reliable}
	s.send(t, c, chat)
	s.until(t, "answered", func() bool { return c.Value.text == "you *******" && c.Value.id == 1 })
	if want := []string{"\x87\x00\x0byou *******"}; !slices.Equal(heard, want) {
		t.Errorf("the server has %q, want %q", heard, want)
	}
	run := tidegate(s.dir, "reload")
	done := make(chan error, 1)
	go func() { done <- run.Run() }()
	var err error
	s.until(t, "reloaded", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.talk(t, c, "after the reload")
}
