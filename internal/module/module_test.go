package module

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/await"
	"tidegate/proxy/bridge"
)

func readModule(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bounds are wide, for busy machines.
var bounds = Options{Memory: 1 << 20, Time: 10 * time.Second}

func compileOdd(t testing.TB, o Options, loops int) *Program {
	t.Helper()
	p, err := Compile(readModule(t, "odd"), o, loops)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// say gives a module a message from a client.
func say(m bridge.Module, text string, state *[]byte) (sent []bridge.Sent, passes bool, err error) {
	c := bridge.Call{
		Now: time.UnixMilli(1234), From: policy.FromClient, Session: 7, State: state,
		Message: &codec.Message{Mode: codec.Reliable, Channel: 2, ID: 5, HasID: true, Payload: []byte(text)},
	}
	passes, err = m.Handle(&c)
	return c.Sent, passes, err
}

func TestModuleSeesAndSends(t *testing.T) {
	m := compileOdd(t, bounds, 1).Loop(0)
	if sent, passes, err := say(m, "x", nil); err != nil || !passes || len(sent) != 0 {
		t.Errorf("pass: %v, %v, %v", sent, passes, err)
	}
	if sent, passes, err := say(m, "d", nil); err != nil || passes || len(sent) != 0 {
		t.Errorf("drop: %v, %v, %v", sent, passes, err)
	}
	sent, passes, err := say(m, "change", nil)
	if err != nil || passes || len(sent) != 1 {
		t.Fatalf("change: %v, %v, %v", sent, passes, err)
	}
	if one := sent[0]; one.From != policy.FromClient || string(one.Message.Payload) != "Change" || one.Message.ID != 5 ||
		!one.Message.HasID || one.Message.Mode != codec.Reliable || one.Message.Channel != 2 {
		t.Errorf("change: %+v", one)
	}
	sent, passes, err = say(m, "answer", nil)
	if err != nil || !passes || len(sent) != 1 || sent[0].From != policy.FromUpstream || sent[0].Message.ID != 9 {
		t.Errorf("answer: %+v, %v, %v", sent, passes, err)
	}
	m.Ended(time.UnixMilli(5), 42)
	sent, _, err = say(m, "i", nil)
	if err != nil || len(sent) != 1 {
		t.Fatalf("info: %+v, %v", sent, err)
	}
	info := sent[0].Message.Payload
	for i, want := range []uint64{5, 1234, 42} {
		if got := binary.LittleEndian.Uint64(info[8*i:]); got != want {
			t.Errorf("info %d is %d, want %d", i, got, want)
		}
	}
}

func TestStateStaysWithTheSession(t *testing.T) {
	m := compileOdd(t, bounds, 1).Loop(0)
	var one, other []byte
	if _, _, err := say(m, "keep this", &one); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		state *[]byte
		want  string
	}{{&one, "keep this"}, {&other, ""}} {
		sent, _, err := say(m, "b", c.state)
		if err != nil || len(sent) != 1 || string(sent[0].Message.Payload) != c.want {
			t.Errorf("%+v, %v, want %q", sent, err, c.want)
		}
	}
	if _, _, err := say(m, "K", &other); !errors.Is(err, errState) || len(other) != 0 {
		t.Errorf("%d bytes kept, %v", len(other), err)
	}
}

// TestModuleLogs writes lines, which are bounded in number and length.
func TestModuleLogs(t *testing.T) {
	var lines []string
	var left []uint64
	o := bounds
	o.Log = func(session uint64, text []byte, suppressed uint64) {
		lines, left = append(lines, fmt.Sprintf("%d %s", session, text)), append(left, suppressed)
	}
	p, err := Compile(readModule(t, "count"), o, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, began := p.Loop(0), time.Unix(1000, 0)
	c := bridge.Call{Now: began, Session: 7, State: new([]byte), Message: &codec.Message{}}
	say := func(text string) {
		c.Message.Payload = []byte(text)
		if _, err := m.Handle(&c); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * lineBurst {
		say("\xfeLhello")
	}
	if len(lines) != lineBurst || lines[0] != "7 hello" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	c.Now = began.Add(2 * lineEvery)
	say("\xfeL" + strings.Repeat("x", 1000))
	m.Ended(c.Now, 8)
	if last := lines[lineBurst:]; len(last) != 2 || len(last[0]) != maxLine+2 || last[1] != "8 ended" ||
		left[lineBurst] != lineBurst || left[lineBurst+1] != 0 {
		t.Errorf("%q, after %d lines that were left out", last, left)
	}
	if n := testing.AllocsPerRun(100, func() { say("\xfeLhello") }); n > 1 { // the test's own
		t.Errorf("%v allocations for a line", n)
	}
}

// TestHostileCallsEnd makes a module do each harm that it can. Each ends with an error that says what happened, and
// with another instance, which has nothing of the first one's memory.
func TestHostileCallsEnd(t *testing.T) {
	failures := make(chan error, 100)
	o := Options{Memory: 1 << 20, Time: 10 * time.Millisecond, Failed: func(err error) { failures <- err }}
	p := compileOdd(t, o, 1)
	p.between = time.Millisecond
	m := p.Loop(0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range []struct{ text, want string }{
		{"l", ErrTime.Error()}, {"r", ErrTime.Error()}, {"t", "wasm error: unreachable in .$"},
		{"o", errOutput.Error()}, {"O", errOutput.Error()}, {"p", errPointer.Error()}, {"P", errPointer.Error()},
		{"m", errSend.Error()}, {"v", "it answers 2"}, {"K", errState.Error()},
	} {
		p.loops[0].awaitStart(t)
		began := time.Now()
		_, before := threadTime()
		sent, passes, err := say(m, c.text, new([]byte))
		_, after := threadTime()
		t.Logf("%s held up the loop for %v of processor time, %v in all: %v", c.text, after-before, time.Since(began), err)
		if err == nil || !strings.Contains(err.Error(), c.want) || passes || len(sent) > 0 {
			t.Errorf("%s: %d sent, %v, %v; want %q", c.text, len(sent), passes, err, c.want)
		}
		if told := <-failures; !errors.Is(err, told) {
			t.Errorf("%s: told %v, not %v", c.text, told, err)
		}
	}
	p.loops[0].awaitStart(t)
	sent, _, err := say(m, "i", nil)
	if err != nil || binary.LittleEndian.Uint64(sent[0].Message.Payload) != 1 {
		t.Errorf("%v, %v", sent, err)
	}
}

// TestDeepStackEnds has more time than the other hostile calls, so that the stack is what ends it.
func TestDeepStackEnds(t *testing.T) {
	if _, _, err := say(compileOdd(t, Options{Memory: 1 << 20, Time: time.Minute}, 1).Loop(0), "s", nil); err == nil ||
		!strings.Contains(err.Error(), "stack overflow") {
		t.Error(err)
	}
}

func (l *Loop) awaitStart(t testing.TB) {
	await.Until(t, "the module has started again", func() bool { return l.current.Load() != nil })
}

func TestMemoryIsBounded(t *testing.T) {
	m := compileOdd(t, bounds, 1).Loop(0)
	sent, passes, err := say(m, "g", nil)
	if err != nil || !passes || len(sent) != 1 {
		t.Fatalf("%v, %v, %v", sent, passes, err)
	}
	if pages := binary.LittleEndian.Uint32(sent[0].Message.Payload); pages != 16 {
		t.Errorf("%d pages, want 16", pages)
	}
	if _, err := Compile(readModule(t, "odd"), Options{Memory: 2 * pageSize, Time: time.Second}, 1); err == nil {
		t.Error("a module of 3 pages has 2")
	}
}

func TestStartIsBounded(t *testing.T) {
	short := bounds
	short.start = 100 * time.Millisecond
	_, err := Compile(readModule(t, "lazy"), short, 1)
	if err == nil || !strings.Contains(err.Error(), "it does not start: start function[0] failed: "+ErrTime.Error()) {
		t.Error(err)
	}
}

func TestLargeMessages(t *testing.T) {
	m := compileOdd(t, bounds, 1).Loop(0)
	if _, passes, err := say(m, string(make([]byte, maxMessage)), nil); err != nil || !passes {
		t.Error(passes, err)
	}
	if _, _, err := say(m, string(make([]byte, maxMessage+1)), nil); !errors.Is(err, ErrLarge) {
		t.Error(err)
	}
	if _, passes, err := say(m, "x", nil); err != nil || !passes {
		t.Error("a large message costs the instance:", err)
	}
}

func TestInterfaceIsChecked(t *testing.T) {
	odd := readModule(t, "odd")
	for _, c := range []struct{ old, new, want string }{
		{"tidegate_v1_message", "tidegate_v2_message", "it exports tidegate_v2_message; this release has version 1"},
		{"tidegate_v1_message", "somethingdifferent1", "it does not export the function tidegate_v1_message"},
		{"tidegate_v1_buffer", "tidegate_v1_buffet", "it does not export the function tidegate_v1_buffer"},
		{"\x06memory", "\x06memori", `it does not export its memory as "memory"`},
		{"state_read", "state_reed", "it imports state_reed of tidegate_v1, which Tidegate does not have"},
		{"\x00asm", "\x00ASM", errLayout.Error()},
	} {
		changed := bytes.Replace(odd, []byte(c.old), []byte(c.new), 1)
		if _, err := Compile(changed, bounds, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.new, err, c.want)
		}
	}
}

func TestHandleAllocatesNothing(t *testing.T) {
	m := compileOdd(t, bounds, 1).Loop(0)
	state := make([]byte, 0, 64)
	c := bridge.Call{From: policy.FromClient, State: &state, Message: &codec.Message{}}
	for _, text := range []string{"x", "d", "change", "keep", "b"} {
		payload := []byte(text)
		if n := testing.AllocsPerRun(1000, func() {
			c.Message.Payload = payload
			if _, err := m.Handle(&c); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

// FuzzGuard changes modules. What guard makes of a module that wazero accepts is a module that wazero accepts.
func FuzzGuard(f *testing.F) {
	for _, name := range []string{"odd", "lazy", "count"} {
		f.Add(readModule(f, name))
	}
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, file []byte) {
		made, check, err := guard(file)
		if err != nil {
			return
		}
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
		defer func() { _ = r.Close(ctx) }()
		if _, err := r.CompileModule(ctx, file); err != nil {
			return
		}
		code, err := r.CompileModule(experimental.WithFunctionListenerFactory(ctx, listener(check)), made)
		if err != nil {
			t.Fatalf("%v\n%x\n%x", err, file, made)
		}
		_ = code.Close(ctx)
	})
}

func BenchmarkHandle(b *testing.B) {
	m := compileOdd(b, Options{Memory: 1 << 20, Time: 10 * time.Millisecond}, 1).Loop(0)
	for _, c := range []struct{ name, text string }{
		{"pass", strings.Repeat("x", 60)}, {"drop", "d" + strings.Repeat("x", 59)}, {"change", "c" + strings.Repeat("x", 59)},
		{"read 60 bytes", "#" + strings.Repeat("x", 59)},
	} {
		b.Run(c.name, func(b *testing.B) {
			call := bridge.Call{From: policy.FromClient, Message: &codec.Message{Payload: []byte(c.text)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Handle(&call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
