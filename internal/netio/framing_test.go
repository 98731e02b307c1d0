package netio_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"tidegate/internal/netio"
)

// capturedStream is one direction of a connection of the real library.
type capturedStream struct {
	Library, Scenario, Sender, Stream string
	Connection, Prefix                int
	Frames                            []string
}

func capturedStreams(t *testing.T) (all []capturedStream) {
	t.Helper()
	file, err := os.ReadFile("testdata/riptide-streams.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(file))
	lines.Buffer(nil, len(file))
	for lines.Scan() {
		var s capturedStream
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// TestCapturedStreamsCutAnywhere checks that a captured stream yields the same frames wherever it is cut. After each
// piece the loop turns until all complete frames have come, so that the pieces are really read one by one.
func TestCapturedStreamsCutAnywhere(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		for _, c := range capturedStreams(t) {
			prefix := netio.LengthU16LE
			if c.Prefix == 4 {
				prefix = netio.LengthI32LE
			}
			l := newLoop(t, o)
			conn := netConn(t, l.listenStream(netio.StreamOptions{Prefix: prefix, MaxFrame: 1231}).Addr())
			_ = conn.SetNoDelay(true)
			rest, err := hex.DecodeString(c.Stream)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, uint64(len(rest))))
			for sent := 0; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(40))
				write(t, conn, rest[:n])
				rest = rest[n:]
				sent += n
				l.untilReceived(wholeAfter(c, sent))
			}
			for i, frame := range c.Frames {
				if got := hex.EncodeToString([]byte(l.received[i].datagram)); got != frame {
					t.Fatalf("%s %s %s: frame %d is %s, want %s", c.Library, c.Scenario, c.Sender, i, got, frame)
				}
			}
			if len(l.received) != len(c.Frames) {
				t.Errorf("%d frames, want %d", len(l.received), len(c.Frames))
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// wholeAfter returns the number of complete frames in the first n bytes of the stream.
func wholeAfter(c capturedStream, n int) (frames int) {
	for _, frame := range c.Frames {
		if n -= c.Prefix + len(frame)/2; n < 0 {
			break
		}
		frames++
	}
	return frames
}
