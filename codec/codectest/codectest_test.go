package codectest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
)

// toyConfig is the toy codec's promise. A fault says which part of it the codec breaks.
func toyConfig(fault string) Config {
	factoryFrom := func(first toySeq) factory {
		return func(uint64) (server, client codec.Protocol) {
			return &toyProtocol{fault: fault, first: first}, &toyProtocol{fault: fault, first: first}
		}
	}
	data := codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte{1, 2, 3}}
	kick := codec.Goodbye{Reason: codec.Kicked, Data: []byte("afk"), Pad: 2}
	return Config{
		Defenceless:      "the toys take every datagram of their peer's address",
		ForgedAnswer:     "the toys take every welcome",
		New:              factoryFrom(1),
		NearWrap:         factoryFrom(0xffff - 10),
		NearWraps:        map[string]func(uint64) (server, client codec.Protocol){"all": factoryFrom(0xffff - 20)},
		MaxPayload:       func(codec.Mode) int { return toyMaxPayload },
		Pads:             []uint8{0, 3},
		IDs:              toySpec.Modes,
		Repeats:          false,
		HelloData:        true,
		HelloIdentity:    true,
		ClientIDs:        true,
		Refusals:         []GoodbyeCase{{data, data}},
		Kicks:            []GoodbyeCase{{kick, kick}},
		StatelessRefusal: codec.ServerFull,
		Timeout:          5 * time.Second,
		DialTimeout:      6 * time.Second,
		MaxMemory:        256 << 10,
		Derived:          []string{"polled"},
	}
}

func TestToyPasses(t *testing.T) { Run(t, toyConfig("")) }

// granterConfig is the toy's promise as a codec.Granter.
func granterConfig(fault string) Config {
	c := toyConfig(fault)
	c.New = func(uint64) (server, client codec.Protocol) {
		p := &toyGranter{toyProtocol{fault: fault, first: 1}}
		return p, p
	}
	c.NearWrap = nil
	c.Deferred = c.Refusals
	return c
}

func TestGrantingToyPasses(t *testing.T) {
	for _, check := range []string{"grant", "protocol", "refuse", "close-early", "no-answer"} {
		if w := runCheck(t, check, granterConfig("")); len(w.errors) > 0 {
			t.Errorf("%s: %q", check, w.errors)
		}
	}
}

// TestBrokenGranterFails does the same as TestBrokenToyFails, for the promises of a codec.Granter.
func TestBrokenGranterFails(t *testing.T) {
	for _, test := range []struct{ fault, says string }{
		{"grants by itself", "before Grant: client granted true"},
		{"introduces itself", "before Introduce: client granted true by 4711, want 4711; server asked true"},
		{"forgets the granting server", "by 0, want 4711"},
		{"granted twice", "Granted twice"},
		{"never connects", "no session"},
		{"forgets the identity", "Asked brings identity 0"},
		{"goodbye without data", "heard as"},
	} {
		w := runCheck(t, "grant", granterConfig(test.fault))
		if !strings.Contains(strings.Join(w.errors, "\n"), test.says) {
			t.Errorf("a codec that %q passes, or fails for other reasons: %q", test.fault, w.errors)
		}
	}
}

// TestBelieverFails checks that a codec which believes each goodbye fails. The toys do, and so have no defence.
func TestBelieverFails(t *testing.T) {
	c := toyConfig("")
	c.Defenceless = ""
	w := runCheck(t, "forged-goodbye", c)
	const fault = "100 of 100 forged goodbyes of a client are believed"
	if !strings.Contains(strings.Join(w.errors, "\n"), fault) {
		t.Errorf("a codec that believes goodbyes passes, or fails for other reasons: %q", w.errors)
	}
}

// witness is a tb that records the reported errors.
type witness struct{ errors []string }

func (*witness) Helper()             {}
func (*witness) Logf(string, ...any) {}

func (w *witness) Errorf(format string, args ...any) {
	w.errors = append(w.errors, fmt.Sprintf(format, args...))
}

// TestBrokenToyFails breaks one promise at a time. It names the check that must catch the fault, and the expected
// words.
func TestBrokenToyFails(t *testing.T) {
	for _, test := range []struct{ fault, check, says string }{
		{"sniffs anything", "protocol", "empty datagram"},
		{"forgets to resend", "traffic/foul/reliable", "never arrived"},
		{"delivers duplicates", "traffic/foul/reliable", "arrived 2 times"},
		{"delivers duplicates", "traffic/foul/unreliable", "arrived 2 times"},
		{"reorders", "traffic/reordered/reliable-ordered", "out of order"},
		{"goes backwards", "traffic/reordered/unreliable-sequenced", "after"},
		{"goes backwards", "traffic/foul/reliable-sequenced", "after"},
		{"receipt twice", "traffic/clear/reliable", "answered 2 times"},
		{"receipt forgotten", "peer-vanishes", "answered 0 times, want once"},
		{"reports too early", "traffic/foul/unreliable", "reported delivered, but never arrived"},
		{"reports too early", "peer-vanishes", "reported delivered, but never arrived"},
		{"never reports", "traffic/clear/notify", "reported delivered in clear weather"},
		{"keeps the datagram", "traffic/reordered/reliable-ordered", "never sent"},
		{"busy loop", "traffic/clear/reliable", "busy"},
		{"restless", "traffic/clear/reliable", "Advance calls within a virtual second"},
		{"moody", "traffic/clear/reliable", "differ"},
		{"compares without wrap", "traffic/wrap/reliable", "never arrived"},
		{"compares without wrap", "traffic/wrap of all/reliable", "never arrived"},
		{"remembers large messages", "memory", "grow by"},
		{"loses the pad", "sizes", "pad 3"},
		{"loses the pad", "traffic/clear/reliable", "pad 0 instead of 3"},
		{"loses the ID", "traffic/clear/reliable", "with ID 0"},
		{"keeps the payload", "traffic/clear/reliable", "never sent"},
		{"changes what it lent", "traffic/foul/mixed", "changed within its Poll round"},
		{"never connects", "traffic/clear/reliable", "handshakes failed"},
		{"receives too early", "traffic/clear/reliable", "Received before Connected"},
		{"asks twice", "traffic/clear/reliable", "Asked twice"},
		{"forgets the identity", "traffic/clear/reliable", "Asked brings"},
		{"tells a wrong ID", "traffic/clear/reliable", "received client ID"},
		{"disconnected twice", "leave", "after Disconnected"},
		{"ends again", "close-both", "after Disconnected"},
		{"receipt forgotten", "close-early", "answered 0 times, want once"},
		{"counts wrongly", "traffic/clear/reliable", "Stats.Queued"},
		{"counts backwards", "traffic/clear/reliable", "Stats went from"},
		{"learns", "traffic/clear/reliable", "same protocols differ"},
		{"never times out", "close-early", "left its handshake not noticed"},
		{"never times out", "peer-vanishes", "silence not noticed"},
		{"never times out", "no-answer", "still dialing"},
		{"goodbye without data", "kick", "heard as"},
		{"goodbye without data", "refuse", "heard as"},
		{"refuses with another reason", "refuse-stateless", "want server-full"},
		{"refuses in place", "refuse-stateless", "did not append"},
		{"takes any size", "send-errors", "want ErrTooLarge"},
		{"takes any mode", "send-errors", "want ErrMode"},
		{"sends when closed", "leave", "want ErrClosed"},
		{"drops when full", "queue-full", "no ErrFull"},
		{"overwrites the buffer", "traffic/clear/reliable", "did not append"},
		{"dies of garbage", "hostile", "ended by itself"},
		{"dies of garbage", "memory", "extend Config.FatalIfForged"},
		{"forgets to resend", "bulk", "never arrived"},
		{"remembers everything", "memory", "grow by"},
		{"allocates", "allocations", "allocations for a message"},
		{"announces", "news", "want ErrMode"},
		{"joins unconfirmed", "confirm", "Connected without Confirm"},
		{"confirms in vain", "confirm", "no session"},
		{"invents errors", "hostile", "wraps neither"},
		{"hides a first byte", "traffic/clear/reliable", "Spec.FirstBytes lacks"},
		{"opens later", "traffic/clear/reliable", "one of Spec.Openings"},
		{"denies that a byte opens", "protocol", "Spec.LoneOpenings says false"},
		{"claims a proof", "proof", "proves no address"},
		{"claims an early proof", "proof", "proves no address"},
		{"forgets its token", "optional", "the pong has token"},
		{"joins in place", "optional", "does not only append"},
		{"answers as it was answered", "optional", "AppendPong of another ping"},
		{"mute in a loop", "optional", "never arrived"},
		{"names another client", "leave", "Identity() ="},
		{"tolerates nothing", "optional", "connection closed"},
	} {
		t.Run(test.fault+"/"+test.check, func(t *testing.T) {
			w := runCheck(t, test.check, toyConfig(test.fault))
			if !strings.Contains(strings.Join(w.errors, "\n"), test.says) {
				t.Errorf("a codec that %q passes %s, or for other reasons: %q", test.fault, test.check, w.errors)
			}
		})
	}
}

// TestFewChannels checks that the suite finds a codec that loses or refuses messages on channels beyond those granted.
// The toy has no channels, so all of them are one.
func TestFewChannels(t *testing.T) {
	for fault, says := range map[string]string{
		"":                     "",
		"drops far channels":   "beyond those granted, arrived 0 times",
		"refuses far channels": "beyond those granted: ",
	} {
		config := toyConfig(fault)
		config.Channels, config.FewChannels = 4, config.New
		w := runCheck(t, "few-channels", config)
		if len(w.errors) > 0 != (fault != "") || !strings.Contains(strings.Join(w.errors, "\n"), says) {
			t.Errorf("a codec that %q: %q", fault, w.errors)
		}
	}
}

// TestForgedAnswerIsFound checks that the suite finds a client that takes every welcome.
func TestForgedAnswerIsFound(t *testing.T) {
	config := toyConfig("")
	config.ForgedAnswer = ""
	if w := runCheck(t, "forged-answer", config); len(w.errors) == 0 {
		t.Error("a client that takes every welcome passes")
	}
}

// runCheck runs one part of the suite with a witness.
func runCheck(t *testing.T, name string, config Config) *witness {
	c := config.withDefaults()
	for _, ck := range append(trafficChecks(c), checks...) {
		if ck.name == name {
			w := &witness{}
			ck.run(w, c)
			return w
		}
	}
	t.Fatalf("no check %q", name)
	return nil
}
