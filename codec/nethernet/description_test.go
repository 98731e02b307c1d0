package nethernet

import (
	"bytes"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func described(t testing.TB, text string) *Description {
	t.Helper()
	d, err := ParseDescription([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRecordedDescriptions reads what the four stacks wrote.
func TestRecordedDescriptions(t *testing.T) {
	for _, stack := range stacks {
		r := recording(t, stack)
		offer, answer := described(t, r.Offer), described(t, r.Answer)
		fingerprints, size := 1, 262144
		switch stack {
		case "aiortc":
			fingerprints = 3
		case "werift":
			size = 65536
		}
		if offer.Setup != "actpass" || offer.Lite || len(offer.Fingerprints) != fingerprints || offer.SCTPPort != 5000 ||
			offer.MaxMessageSize != size || offer.Identity == "" || len(offer.Candidates) < 2 {
			t.Errorf("%s: offer %+v", stack, offer)
		}
		if answer.Setup != "active" || answer.Lite != (stack == "libdatachannel-lite") || len(answer.Fingerprints) != 1 ||
			answer.MaxMessageSize != 262144 || answer.Identity == "" {
			t.Errorf("%s: answer %+v", stack, answer)
		}
		tcp := 0
		for _, c := range offer.Candidates {
			if !c.UDP {
				tcp++
			}
			if c.Component > 2 || !c.Address.IsValid() || c.Port == 0 {
				t.Errorf("%s: candidate %+v", stack, c)
			}
		}
		if want := map[string]int{"libwebrtc": 4}[stack]; tcp != want {
			t.Errorf("%s: %d candidates of TCP, want %d", stack, tcp, want)
		}
		server := netip.MustParseAddr("192.0.2.2")
		if target, err := answer.Target(server, false); err != nil || target.Addr() != server || target.Port() == 0 {
			t.Errorf("%s: target %v, %v", stack, target, err)
		}
	}
}

// edges are the public addresses of an edge.
var edges = []netip.AddrPort{
	netip.MustParseAddrPort("203.0.113.9:19132"), netip.MustParseAddrPort("[2001:db8::9]:19132"),
}

// TestKeptParts asserts that what a session keeps of a description does not hold the rest of it in memory.
func TestKeptParts(t *testing.T) {
	text := recording(t, stacks[0]).Offer + "a=" + strings.Repeat("x", 8<<10) + "\r\n"
	var kept []string
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	const n = 200
	for range n {
		d := described(t, text)
		kept = append(kept, d.Ufrag, d.Password, d.Fingerprints[0].Digest)
	}
	if each := (heap() - before) / n; each > 2<<10 {
		t.Errorf("%d bytes for each description", each)
	}
	runtime.KeepAlive(kept)
}

// TestRewrite rewrites the recorded descriptions. No address of either side stays, all other lines stay byte for byte,
// and both identities stay valid.
func TestRewrite(t *testing.T) {
	const own = "a=candidate:1 1 udp 2130706431 203.0.113.9 19132 typ host\r\n" +
		"a=candidate:2 1 udp 2130706175 2001:db8::9 19132 typ host\r\na=end-of-candidates\r\n"
	for _, stack := range stacks {
		r := recording(t, stack)
		for _, text := range []string{r.Offer, r.Answer} {
			out, err := Rewrite([]byte(text), edges)
			if err != nil {
				t.Fatal(stack, err)
			}
			for _, address := range []string{"192.0.2.2", "127.0.0.1", "fd00::2", "::1"} {
				if bytes.Contains(out, []byte(address)) {
					t.Errorf("%s: %s is left in %s", stack, address, out)
				}
			}
			rest, ok := strings.CutSuffix(string(out), own)
			if !ok || strings.Count(string(out), "candidate") != strings.Count(own, "candidate") {
				t.Errorf("%s: candidates in %s", stack, out)
			}
			if want := unaddressed(text); !slices.Equal(unaddressed(rest), want) {
				t.Errorf("%s: the lines\n%q, want\n%q", stack, unaddressed(rest), want)
			}
			before, after := described(t, text), described(t, string(out))
			before.Candidates, after.Candidates = nil, nil
			if before.Ufrag != after.Ufrag || before.Identity != after.Identity || before.Setup != after.Setup {
				t.Errorf("%s: %+v became %+v", stack, before, after)
			}
			verifyOwn(t, stack, after)
			again, err := Rewrite(out, edges)
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("%s: rewritten again: %v, %s", stack, err, again)
			}
		}
		out, err := Rewrite([]byte(r.Offer), nil)
		isBare := !strings.Contains(string(out), "a=candidate") &&
			strings.HasSuffix(string(out), "\r\na=end-of-candidates\r\n")
		if err != nil || !isBare {
			t.Errorf("%s: without addresses: %v, %s", stack, err, out)
		}
	}
}

// unaddressed returns the lines that have no address.
func unaddressed(text string) (lines []string) {
	for _, line := range strings.SplitAfter(text, "\r\n") {
		hasAddress := slices.ContainsFunc([]string{"o=", "c=", "m=", "a=candidate", "a=end-of"}, func(start string) bool {
			return strings.HasPrefix(line, start)
		})
		if line != "" && !hasAddress {
			lines = append(lines, line)
		}
	}
	return lines
}

// A small description, as one of few lines.
const short = "v=0\r\no=- 1 2 IN IP6 2001:db8::77\r\ns=-\r\nt=0 0\r\n" +
	"m=application 4711 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP6 2001:db8::77\r\n" +
	"a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 AA:BB\r\n"

// TestRewriteLines rewrites lines that the recordings do not have.
func TestRewriteLines(t *testing.T) {
	const want = "v=0\r\no=- 1 2 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n" +
		"m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n" +
		"a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 AA:BB\r\n"
	const end = "a=end-of-candidates\r\n"
	for name, test := range map[string]struct{ text, want string }{
		"plain":             {short, want + end},
		"no end":            {strings.TrimSuffix(short, "\r\n"), want + end},
		"LF alone":          {strings.ReplaceAll(short, "\r\n", "\n"), want + end},
		"empty lines after": {short + "\r\n\r\n", want + end},
		"rtcp":              {short + "a=rtcp:4711 IN IP4 192.0.2.1\r\na=rtcp-mux\r\n", want + "a=rtcp-mux\r\n" + end},
		"remote candidates": {short + "a=remote-candidates:1 192.0.2.1 4711\r\n", want + end},
		"medium refused":    {strings.Replace(short, " 4711 ", " 0 ", 1), strings.Replace(want, " 9 ", " 0 ", 1) + end},
	} {
		if out, err := Rewrite([]byte(test.text), nil); err != nil || string(out) != test.want {
			t.Errorf("%s: %v\n%q, want\n%q", name, err, out, test.want)
		}
	}
}

// TestUnusableDescriptions shows which descriptions are refused.
func TestUnusableDescriptions(t *testing.T) {
	described(t, short)
	described(t, short+"a=identity:abc some=extension\r\na=unknown\r\n")
	replaced := func(old, new string) string { return strings.Replace(short, old, new, 1) }
	for name, text := range map[string]string{
		"empty": "", "a refusal": "37", "no media": "v=0\r\n",
		"too long":          short + "a=x:" + strings.Repeat("x", MaxDescription),
		"hidden by CR":      replaced("s=-", "s=-\ra=candidate:1 1 udp 1 192.0.2.1 1 typ host"),
		"hidden by NUL":     replaced("s=-", "s=-\x00"),
		"hidden by U+2028":  replaced("s=-", "s=-\u2028a=x"),
		"no UTF-8":          replaced("AA:BB", "AA:\xff"),
		"empty line within": replaced("s=-", "s=-\r\n"),
		"two media":         short + "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n",
		"audio":             replaced("m=application", "m=audio"),
		"no ufrag":          replaced("a=ice-ufrag:abcd\r\n", ""),
		"short ufrag":       replaced("abcd", "abc"),
		"long ufrag":        replaced("abcd", strings.Repeat("a", 257)),
		"ufrag with colon":  replaced("abcd", "ab:cd"),
		"ufrag with space":  replaced("abcd", "ab cd"),
		"two ufrags":        short + "a=ice-ufrag:other\r\n",
		"short password":    replaced("012345678901234567890", "01"),
		"no fingerprint":    replaced("a=fingerprint:sha-256 AA:BB\r\n", ""),
		"odd fingerprint":   replaced("sha-256 AA:BB", "sha-256"),
		"too many":          short + strings.Repeat("a=fingerprint:sha-256 AA\r\n", maxFingerprints),
		"message size":      short + "a=max-message-size:many\r\n",
		"SCTP port":         short + "a=sctp-port:65536\r\n",
		"two identities":    short + "a=identity:a\r\na=identity:b\r\n",
	} {
		if d, err := ParseDescription([]byte(text)); !errors.Is(err, ErrDescription) {
			t.Errorf("%s: %v, %+v", name, err, d)
		}
	}
	for name, text := range map[string]string{
		"o=":       replaced("o=- 1 2 IN IP6 2001:db8::77", "o=- 192.0.2.1"),
		"m=":       replaced("m=application 4711 UDP/DTLS/SCTP webrtc-datachannel", "m=application"),
		"too long": strings.Repeat("a=x\r\n", MaxDescription/5+1), "no line": "37",
	} {
		if out, err := Rewrite([]byte(text), nil); !errors.Is(err, ErrDescription) {
			t.Errorf("rewrite %s: %v, %s", name, err, out)
		}
	}
	// The media section's attributes count more.
	both := described(t, replaced("t=0 0", "t=0 0\r\na=ice-ufrag:session\r\na=setup:passive\r\na=ice-lite"))
	if both.Ufrag != "abcd" || both.Setup != "passive" || !both.Lite || both.MaxMessageSize != 65536 {
		t.Errorf("%+v", both)
	}
	many := described(t, short+strings.Repeat("a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n", maxCandidates+1))
	if len(many.Candidates) != maxCandidates {
		t.Errorf("%d candidates", len(many.Candidates))
	}
}

// TestTarget chooses the server's address from hostile and odd answers.
func TestTarget(t *testing.T) {
	const (
		own      = "1 1 udp 9 192.0.2.2 7000 typ host"
		own2     = "1 2 udp 9 192.0.2.2 7000 typ host"
		third    = "1 1 udp 9 198.51.100.1 53 typ host"
		inner    = "1 1 UDP 9 172.17.0.2 7001 typ host"
		innerV6  = "1 1 udp 9 fd00::2 7002 typ host"
		name     = "1 1 udp 9 f.local 7003 typ host"
		tcp      = "1 1 tcp 9 192.0.2.2 7004 typ host tcptype active"
		mapped   = "1 1 udp 9 ::ffff:192.0.2.2 7005 typ host"
		scoped   = "1 1 udp 9 fe80::1%eth0 7006 typ host"
		portless = "1 1 udp 9 192.0.2.2 0 typ host"
		broken   = "1 1 udp 9 192.0.2.2 70000 typ host"
		untyped  = "1 1 udp 9 192.0.2.2 7000"
	)
	server := netip.MustParseAddr("::ffff:192.0.2.2")
	for _, test := range []struct {
		candidates []string
		any        bool
		want       string // an address, or an error's text
	}{
		{[]string{own}, false, "192.0.2.2:7000"},
		{[]string{third, own}, false, "192.0.2.2:7000"},
		{[]string{mapped}, false, "192.0.2.2:7005"},
		{[]string{third}, false, ErrThirdParty.Error() + ": 198.51.100.1:53"},
		{[]string{third}, true, "192.0.2.2:53"}, // of the server, not of the third party
		{[]string{inner, own}, true, "192.0.2.2:7000"},
		{[]string{innerV6, inner}, true, "192.0.2.2:7001"},
		{[]string{innerV6}, true, "192.0.2.2:7002"},
		{[]string{name}, true, "192.0.2.2:7003"},
		{[]string{name}, false, ErrNoCandidate.Error()},
		{[]string{scoped}, false, ErrNoCandidate.Error()},
		{[]string{own2, tcp, portless, broken, untyped}, true, ErrNoCandidate.Error()},
		{nil, true, ErrNoCandidate.Error()},
	} {
		text := short
		for _, c := range test.candidates {
			text += "a=candidate:" + c + "\r\n"
		}
		got, err := described(t, text).Target(server, test.any)
		if result := got.String(); err == nil && result != test.want || err != nil && err.Error() != test.want {
			t.Errorf("%q, any %v: %v, %v, want %s", test.candidates, test.any, got, err, test.want)
		}
	}
}

// FuzzDescription: a rewritten description keeps the signed lines, and names only our addresses.
func FuzzDescription(f *testing.F) {
	for _, stack := range stacks {
		r := recording(f, stack)
		f.Add([]byte(r.Offer))
		f.Add([]byte(r.Answer))
	}
	f.Add([]byte(short))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseDescription(text)
		if err != nil {
			return
		}
		if _, err := d.Target(edges[0].Addr(), true); err == nil && len(d.Candidates) == 0 {
			t.Fatal("a target without a candidate")
		}
		out, err := Rewrite(text, edges)
		if err != nil {
			return
		}
		again, err := ParseDescription(out)
		if err != nil {
			if len(out) > MaxDescription { // our lines were the last straw
				return
			}
			t.Fatal(err)
		}
		if len(again.Candidates) != len(edges) || again.Candidates[0].Address != edges[0] ||
			again.Candidates[1].Address != edges[1] {
			t.Fatalf("%+v", again.Candidates)
		}
		if again.Ufrag != d.Ufrag || again.Password != d.Password || again.Identity != d.Identity || again.Setup != d.Setup ||
			again.Lite != d.Lite || !slices.Equal(again.Fingerprints, d.Fingerprints) {
			t.Fatalf("%+v became %+v", d, again)
		}
	})
}
