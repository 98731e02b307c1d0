package examples

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// written is a message of the real library 2.2.1, with the values that it was given.
type written struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
	Mode  string `json:"mode"`
	Hex   string `json:"hex"`
}

// types returns the types of the values for a harness.
func (w *written) types(values []string) string {
	switch plain, isList := strings.CutSuffix(w.Type, "[] (no length)"); {
	case isList:
		return strings.TrimSuffix(strings.Repeat(plain+",", len(values)), ",")
	case w.Type == "IMessageSerializable[]":
		return "varulong" + strings.Repeat(",int,string", len(values)/2)
	case strings.HasPrefix(w.Type, "IMessageSerializable"):
		return "int,string"
	}
	return strings.NewReplacer("sequence ", "", "(", "", ")", "").Replace(w.Type)
}

// values returns the texts of the values. An array's length is the first.
func (w *written) values() (texts []string) {
	if strings.HasSuffix(w.Type, "[]") {
		texts = append(texts, fmt.Sprint(len(w.Value.([]any))))
	}
	return texted(texts, w.Value)
}

func texted(texts []string, v any) []string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			texts = texted(texts, e)
		}
		return texts
	case map[string]any:
		return texted(texted(texts, v["A"]), v["B"])
	}
	return append(texts, fmt.Sprint(v))
}

// packet returns the message as a RakNet server gets it. In the datagram, four bits of its kind and the ID come first.
func (w *written) packet(t *testing.T) []byte {
	t.Helper()
	d, err := hex.DecodeString(w.Hex)
	if err != nil {
		t.Fatal(err)
	}
	packet := []byte{0x86, 1, 0}
	for i := 1; i < len(d); i++ {
		next := byte(0)
		if i+1 < len(d) {
			next = d[i+1]
		}
		packet = append(packet, d[i]>>4|next<<4)
	}
	return packet
}

// sameValue reports whether a harness has read a value.
func sameValue(got, want string) bool {
	if text, isText := strings.CutPrefix(got, "x"); isText {
		return text == hex.EncodeToString([]byte(want))
	}
	if got == want || got == "1" && want == "true" || got == "0" && want == "false" {
		return true
	}
	a, err := strconv.ParseFloat(got, 64)
	b, failed := strconv.ParseFloat(want, 64)
	short, _ := strconv.ParseFloat(want, 32)
	same := a == b || a == short || float32(a) == float32(b) || math.IsNaN(a) && math.IsNaN(b)
	return err == nil && failed == nil && same
}

// again asks a reader for the values of a packet, and for the packet made again of them.
type again func(types string, packet []byte) string

// testReader reads each message that the real library has written, and writes it again. Vectors, which are floats, are
// made of them. A message that is cut short is no message.
func testReader(t *testing.T, read again) {
	t.Helper()
	text, err := os.ReadFile("../codec/riptide/testdata/values-riptide-2.2.1.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []written
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	one, negative := "0000803f", "000000c0" // floats
	for name, digits := range map[string]string{
		"vector2": one + negative, "vector3": one + negative + one, "quaternion": one + negative + one + one,
	} {
		packet, values := "860100"+digits, strings.NewReplacer(one, " 1", negative, " -2").Replace(digits)
		b, _ := hex.DecodeString(packet)
		wantRead(t, read, name, b, strings.Fields(values))
		wantRead(t, read, name+"[]", append([]byte{0x86, 1, 0, 1}, b[3:]...), strings.Fields("1"+values))
	}
	count := 0
	for i := range all {
		if w := &all[i]; w.Mode == "unreliable" && w.Hex != "" {
			wantRead(t, read, w.types(w.values()), w.packet(t), w.values())
			count++
		}
	}
	if count < 130 {
		t.Errorf("%d messages", count)
	}
	for _, types := range []string{"string", "int[]", "bits40", "varulong"} {
		if got := read(types, []byte{0x86, 1, 0, 0xff, 0xff}); got != "short" {
			t.Errorf("%s that is cut short: %s", types, got)
		}
	}
}

func wantRead(t *testing.T, read again, types string, packet []byte, want []string) {
	t.Helper()
	got := strings.Fields(read(types, packet))
	if len(got) != len(want)+1 {
		t.Errorf("%s of %x: %q, want %q", types, packet, got, want)
		return
	}
	for i, w := range want {
		if !sameValue(got[i], w) {
			t.Errorf("%s of %x: value %d is %s, want %s", types, packet, i, got[i], w)
		}
	}
	// The padding of the datagram may have made a byte.
	b, err := hex.DecodeString(got[len(want)])
	if err != nil || !bytes.Equal(b, packet) && !bytes.Equal(append(b, 0), packet) {
		t.Errorf("%s of %x: made %x again", types, packet, b)
	}
}

// harness starts a program that reads messages.
func harness(t *testing.T, program *exec.Cmd) again {
	t.Helper()
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 1<<20)
	return func(types string, packet []byte) string {
		if _, err := fmt.Fprintf(in, "%s %x\n", types, packet); err != nil || !answers.Scan() {
			t.Fatalf("%s of %x: the program has ended: %v", types, packet, err)
		}
		return answers.Text()
	}
}

// TestReaderInPython reads all that Riptide writes in Python. The tests of the servers do so in C++ and C#.
func TestReaderInPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	program := exec.Command("python3", "-B", "testdata/harness.py")
	program.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(".", bridged))
	testReader(t, harness(t, program))
}
