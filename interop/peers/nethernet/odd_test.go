package nethernet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/rakserver"
)

const (
	oddMessages = 60
	witnessed   = 20 * time.Millisecond // between two messages of a witness
	unnoticed   = 7 * time.Second       // the longest wait of a witness; go-raknet blocks an address for 10 s
)

// TestOddPlayerHarmsNoOther has players of pion send valid, odd messages to a server of go-raknet with its default
// options, for TIDEGATE_ATTACK or some seconds: empty messages and fragments, texts, RakNet's own first bytes, many
// fragments, other channels. A player of pion and one of RakNet go on meanwhile, and a last player gets in.
func TestOddPlayerHarmsNoOther(t *testing.T) {
	t.Parallel()
	at, _, _ := runTidegate(t, fmt.Sprintf(`
[admin]
listen = "off"
[[listener]]
name = "bedrock"
address = "%%s"
protocols = ["bedrock", "nethernet"]
route = "bedrock"
identity = "none"
[[route]]
name = "bedrock"
upstream = "bedrock"
[[upstream]]
name = "bedrock"
protocol = "bedrock"
servers = ["%s"]
`, rakserver.Start(t, rakserver.Echo)))
	k := newKeys(t)
	k.server = nil // Tidegate makes its own
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var over atomic.Bool
	results := []<-chan result{witnessPion(join(t, k, at.String()), &over), witnessRakNet(t, at, &over)}
	visits := 0
	for end := time.Now().Add(attackTime(t)); time.Now().Before(end); visits++ {
		playOddly(join(t, k, at.String()), rng)
	}
	join(t, k, at.String()).echo(20)
	over.Store(true)
	for i, r := range results {
		seen := <-r
		t.Logf("witness %d: %d answers, longest wait %v; %d odd players", i, seen.answers, seen.longest, visits)
		if seen.err != nil || seen.answers == 0 || seen.longest > unnoticed {
			t.Errorf("witness %d: %v", i, seen.err)
		}
	}
}

func attackTime(t *testing.T) time.Duration {
	text := os.Getenv("TIDEGATE_ATTACK")
	if text == "" {
		return 8 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// playOddly sends odd messages and leaves oddly.
func playOddly(p *player, rng *rand.Rand) {
	defer func() { _ = p.pc.Close() }()
	for range oddMessages {
		d := p.reliable
		if rng.IntN(3) == 0 {
			d = p.unreliable
		}
		sendOddly(p, d, rng)
	}
	switch rng.IntN(4) {
	case 0:
		_ = p.reliable.Close()
	case 1: // the countdown skips a fragment
		_ = p.reliable.Send([]byte{7, 1, 2, 3})
		_ = p.reliable.Send([]byte{3, 1, 2, 3})
	case 2: // a message without an end
		_ = p.reliable.Send([]byte{200, 0xfe})
	}
	<-time.After(100 * time.Millisecond) // for datagrams under way
}

// sendOddly sends one odd message. A connection that has ended takes none, which is no fault.
func sendOddly(p *player, d *webrtc.DataChannel, rng *rand.Rand) {
	first := []byte{0, 1, 3, 4, 0x09, 0x10, 0x13, 0x15, 0x1a, 0x1b, 0x86, 0xc1, 0xfe, 0xff}[rng.IntN(14)]
	odd := bytes.Repeat([]byte{first}, 1+rng.IntN(40))
	switch rng.IntN(10) {
	case 0:
		_ = d.Send(nil)
	case 1: // a message without bytes
		_ = d.Send([]byte{0})
	case 2:
		_ = d.SendText("\x00\xff\xfe no UTF-8")
	case 3: // fragments without bytes
		_ = d.Send([]byte{2})
		_ = d.Send([]byte{1})
		_ = d.Send(append([]byte{0}, odd...))
	case 4: // each byte of a message in a fragment of its own
		for left := 254; left >= 0; left-- {
			_ = d.Send([]byte{byte(left), first})
		}
	case 5: // around the bounds on parts
		size := []int{96_000, 99_000, 176_000, 181_000}[rng.IntN(4)]
		if rng.IntN(8) == 0 {
			send(p.t, p.reliable, bytes.Repeat([]byte{first}, size))
		}
	case 6:
		if extra, err := p.pc.CreateDataChannel("odd \xff", nil); err == nil {
			extra.OnOpen(func() { _ = extra.Send(odd) })
		}
	default:
		_ = d.Send(append([]byte{0}, odd...))
	}
}

// result is what a witness has seen.
type result struct {
	answers int
	longest time.Duration
	err     error
}

// witness asks again and again until the time is over.
func witness(over *atomic.Bool, ask func(message []byte) error) <-chan result {
	done := make(chan result, 1)
	go func() {
		var r result
		for ; !over.Load() && r.err == nil; r.answers++ {
			asked := time.Now()
			r.err = ask(fmt.Appendf(nil, "\xfewitness %d", r.answers))
			r.longest = max(r.longest, time.Since(asked))
			<-time.After(witnessed)
		}
		done <- r
	}()
	return done
}

func witnessPion(p *player, over *atomic.Bool) <-chan result {
	return witness(over, func(message []byte) error {
		send(p.t, p.reliable, message)
		select {
		case got := <-p.got:
			return differ(got, message)
		case <-time.After(patience):
			return fmt.Errorf("%q did not come back", message)
		}
	})
}

func witnessRakNet(t *testing.T, at netip.AddrPort, over *atomic.Bool) <-chan result {
	t.Helper()
	conn, err := raknet.DialTimeout(at.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return witness(over, func(message []byte) error {
		if _, err := conn.Write(message); err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		got, err := conn.ReadPacket()
		if err != nil {
			return err
		}
		return differ(got, message)
	})
}

func differ(got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}
