package examples

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/codec/riptide"
)

// bridged is the folder of the files for a RakNet server with Riptide players.
const bridged = "riptide-on-raknet"

// compiled compiles files with a compiler and its options. It skips the test if the compiler is missing.
func compiled(t *testing.T, compiler string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
}

// TestServerInCPlusPlus compiles the C++ files of the tutorial. They answer a message of a Riptide client, and read and
// write all types of values.
func TestServerInCPlusPlus(t *testing.T) {
	program := filepath.Join(t.TempDir(), "server")
	compiled(t, "g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-I", bridged, "-o", program, "testdata/harness.cpp")
	testBridged(t, exec.Command(program))
	testReader(t, harness(t, exec.Command(program)))
}

// TestServerInCSharp is the same in C#.
func TestServerInCSharp(t *testing.T) {
	program := filepath.Join(t.TempDir(), "server.exe")
	compiled(t, "mcs", "-langversion:5", "-warnaserror", "-out:"+program, bridged+"/RiptideMessage.cs",
		bridged+"/Server.cs", "testdata/Harness.cs")
	testBridged(t, exec.Command("mono", program))
	testReader(t, harness(t, exec.Command("mono", program)))
}

// TestUnityClientCompiles compiles the tutorial's client with the signatures that it uses.
func TestUnityClientCompiles(t *testing.T) {
	compiled(t, "mcs", "-target:library", "-warnaserror", "-out:"+filepath.Join(t.TempDir(), "client.dll"),
		bridged+"/GameClient.cs", "testdata/RiptideAndUnity.cs")
}

// testBridged sends a message with the values of GameClient.cs through Tidegate. The program answers in place of the
// RakNet server's game.
func testBridged(t *testing.T, game *exec.Cmd) {
	t.Helper()
	in, err := game.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := game.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := game.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = game.Process.Kill(); _ = game.Wait() })
	answers := bufio.NewScanner(out)

	s := perform(t, "riptide-on-raknet.toml")
	s.servers["127.0.0.1:19132"].answer = func(packet []byte) []byte { return ask(t, in, answers, packet) }
	c := s.dial(t, "public", "riptide-2.2")
	s.until(t, "connected", func() bool { return c.Value.connected })
	w := riptide.NewWriter(riptide.V22, nil)
	w.String("Ada")
	riptide.Add(&w, int32(41))
	riptide.Add(&w, float32(1.5))
	w.Bool(true)
	payload, pad, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	s.send(t, c, codec.Message{Payload: payload, Pad: pad, ID: 1, Mode: codec.Reliable})
	s.until(t, "answered", func() bool { return c.Value.text != "" })
	wantAnswer(t, c)
	if got := ask(t, in, answers, []byte{0x86, 1, 0, 200, 'A'}); len(got) > 0 {
		t.Errorf("a message that is cut short is answered with %x", got)
	}
}

// ask gives the program a packet and returns its answer.
func ask(t *testing.T, in io.Writer, answers *bufio.Scanner, packet []byte) []byte {
	t.Helper()
	if _, err := io.WriteString(in, hex.EncodeToString(packet)+"\n"); err != nil {
		t.Fatal(err)
	}
	if !answers.Scan() {
		t.Fatalf("the program has ended: %v", answers.Err())
	}
	answer, err := hex.DecodeString(string(bytes.TrimSpace(answers.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// wantAnswer checks the values that the client has received.
func wantAnswer(t *testing.T, c *endpoint.Conn[client]) {
	t.Helper()
	r := riptide.NewReader(riptide.V22, []byte(c.Value.text), 0)
	text, score, x, alive := string(r.AppendString(nil)), riptide.Get[int32](&r), riptide.Get[float32](&r), r.Bool()
	err := r.Finish()
	if err != nil && !errors.Is(err, riptide.ErrTrailing) || // the text has no pad
		c.Value.id != 2 || text != "hello Ada" || score != 42 || x != 1.5 || alive {
		t.Errorf("message %d: %q, %d, %v, %v, %v", c.Value.id, text, score, x, alive, err)
	}
}
