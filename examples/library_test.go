package examples

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/raknet"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
)

// TestLibrary builds the program of examples/library, which is a module of its own, and plays on it.
func TestLibrary(t *testing.T) {
	program := filepath.Join(t.TempDir(), "echo")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "library"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at, err := freeport.Find(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	game := exec.Command(program, at.String())
	if err := game.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = game.Process.Kill()
		_ = game.Wait()
	})
	echoed := false
	e, err := endpoint.New(endpoint.Options[int]{Event: func(_ *endpoint.Conn[int], e *codec.Event) {
		echoed = echoed || e.Kind == codec.Received && string(e.Payload) == "\x86hello"
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	p := raknet.New(raknet.Options{})
	text, _, err := endpoint.Ping(ctx, p, at)
	for errors.Is(err, syscall.ECONNREFUSED) && ctx.Err() == nil { // it does not listen yet
		text, _, err = endpoint.Ping(ctx, p, at)
	}
	if string(text) != "echo" || err != nil {
		t.Fatalf("Ping returns %q, %v", text, err)
	}
	c, err := e.Dial(p, at, codec.Hello{}, endpoint.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Connect(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := e.Send(c, codec.Message{Payload: []byte("\x86hello"), Mode: codec.Reliable}); err != nil {
		t.Fatal(err)
	}
	end, _ := ctx.Deadline()
	for !echoed && ctx.Err() == nil {
		if err := e.Turn(end); err != nil {
			t.Fatal(err)
		}
	}
	if !echoed {
		t.Error("no echo")
	}
}
