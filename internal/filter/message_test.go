package filter

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/ratelimit"
)

var start = time.Unix(1_700_000_000, 0)

func compile(t testing.TB, rules ...Message) *Set {
	t.Helper()
	s, err := New(Rules{Messages: rules})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plainly returns a client's message outside of any envelope.
func plainly(protocol string, m *codec.Message) *Said {
	return &Said{From: policy.FromClient, Protocol: protocol, Message: m, Head: m.Payload}
}

// TestMessageConditions has in each row a rule with one condition, a message that matches it and one that just misses
// it.
func TestMessageConditions(t *testing.T) {
	type sent struct {
		from               policy.Direction
		listener, protocol string
		m                  codec.Message
	}
	plain := func(m codec.Message) sent { return sent{policy.FromClient, "public", "raknet", m} }
	for _, test := range []struct {
		name            string
		rule            Message
		matches, beside sent
	}{
		{"ID", Message{IDs: []Range{{3, 3}, {10, 20}}},
			plain(codec.Message{ID: 20, HasID: true}), plain(codec.Message{ID: 21, HasID: true})},
		{"ID 0 is not no ID", Message{IDs: []Range{{0, 0}}}, plain(codec.Message{HasID: true}), plain(codec.Message{})},
		{"packet", Message{Packets: []Range{{0x86, 0x86}, {200, 255}}},
			plain(codec.Message{Payload: []byte{255, 1}}), plain(codec.Message{Payload: []byte{0x87}})},
		{"packet of nothing", Message{Packets: []Range{{0, 0}}},
			plain(codec.Message{Payload: []byte{0}}), plain(codec.Message{})},
		{"least size", Message{MinSize: 3}, plain(codec.Message{Payload: make([]byte, 3)}),
			plain(codec.Message{Payload: make([]byte, 2)})},
		{"largest size", Message{MaxSize: 3}, plain(codec.Message{Payload: make([]byte, 3)}),
			plain(codec.Message{Payload: make([]byte, 4)})},
		{"mode", Message{Modes: codec.ModesOf(codec.Reliable, codec.Notify)},
			plain(codec.Message{Mode: codec.Notify}), plain(codec.Message{Mode: codec.ReliableOrdered})},
		{"direction", Message{Direction: policy.FromUpstream},
			sent{policy.FromUpstream, "public", "raknet", codec.Message{}}, plain(codec.Message{})},
		{"protocol", Message{Protocols: []string{"rudp", "raknet"}},
			plain(codec.Message{}), sent{policy.FromClient, "public", "rtype", codec.Message{}}},
		{"listener", Message{Listeners: []string{"public"}},
			plain(codec.Message{}), sent{policy.FromClient, "staff", "raknet", codec.Message{}}},
	} {
		test.rule.Verdict = ratelimit.Disconnect
		s := compile(t, test.rule)
		judge := func(w sent) Match {
			return s.Message(start, &Said{w.from, w.listener, w.protocol, &w.m, w.m.Payload}, new(Memory))
		}
		if got := judge(test.matches); got.Rule != 0 || got.Verdict != ratelimit.Disconnect {
			t.Errorf("%s: %+v, want rule 0", test.name, got)
		}
		if got := judge(test.beside); got != noMatch {
			t.Errorf("%s: %+v for a message beside it", test.name, got)
		}
	}
}

func TestFirstRuleThatDoesMoreThanObserveDecides(t *testing.T) {
	s := compile(t,
		Message{Name: "all", Verdict: ratelimit.Observe},
		Message{Name: "chat", IDs: []Range{{7, 7}}, Verdict: ratelimit.Pass},
		Message{Name: "large", MinSize: 100, Verdict: ratelimit.BanSource},
		Message{Name: "rest", Verdict: ratelimit.Observe},
	)
	for _, test := range []struct {
		m    codec.Message
		want Match
	}{
		{codec.Message{ID: 7, HasID: true, Payload: make([]byte, 200)}, Match{1, ratelimit.Pass, 0b1}},
		{codec.Message{ID: 8, HasID: true, Payload: make([]byte, 200)}, Match{2, ratelimit.BanSource, 0b1}},
		{codec.Message{ID: 8, HasID: true}, Match{-1, ratelimit.Pass, 0b1001}},
	} {
		if got := s.Message(start, plainly("", &test.m), new(Memory)); got != test.want {
			t.Errorf("message %d of %d bytes: %+v, want %+v", test.m.ID, len(test.m.Payload), got, test.want)
		}
	}
}

func TestRateIsOfOneSession(t *testing.T) {
	s := compile(t,
		Message{Name: "small", MaxSize: 1, Every: time.Hour, Verdict: ratelimit.Drop},
		Message{Name: "fast", Every: 50 * time.Millisecond, Burst: 2, Verdict: ratelimit.Drop})
	var one, other Memory
	m := codec.Message{Payload: []byte{1, 2, 3}}
	now := start
	for _, step := range []struct {
		what   string
		wait   time.Duration
		memory *Memory
		want   int
	}{
		{"first of the burst", 0, &one, -1},
		{"second", 0, &one, -1},
		{"beyond it", 0, &one, 1},
		{"another session", 0, &other, -1},
		{"one refilled", 50 * time.Millisecond, &one, -1},
		{"and no more", 0, &one, 1},
	} {
		now = now.Add(step.wait)
		if got := s.Message(now, plainly("", &m), step.memory); got.Rule != step.want {
			t.Fatalf("%s: rule %d, want %d", step.what, got.Rule, step.want)
		}
	}
	fresh := compile(t, Message{Name: "fast", Every: 50 * time.Millisecond, Verdict: ratelimit.Drop})
	if got := fresh.Message(now, plainly("", &m), &one); got.Rule != -1 {
		t.Error("a session's memory outlives the Set that it is of")
	}
}

func TestMessageDoesNotAllocate(t *testing.T) {
	for name, s := range map[string]*Set{
		"without rules": nil,
		"with rules": compile(t, Message{Every: time.Millisecond, Verdict: ratelimit.Drop},
			Message{IDs: []Range{{1, 5}}, Protocols: []string{"raknet"}, Verdict: ratelimit.Drop},
			Message{Packets: []Range{{1, 5}}, Verdict: ratelimit.Observe}),
	} {
		var memory Memory
		m := codec.Message{Payload: []byte{9}, ID: 9, HasID: true}
		said, now := plainly("raknet", &m), start
		s.Message(now, said, &memory)
		if n := allocs.PerRun(1000, func() {
			now = now.Add(time.Microsecond)
			s.Message(now, said, &memory)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkMessage(b *testing.B) {
	ten := make([]Message, 10)
	for i := range ten {
		ten[i] = Message{IDs: []Range{{uint16(i), uint16(i)}}, Verdict: ratelimit.Drop}
	}
	for name, s := range map[string]*Set{"none": nil, "ten": compile(b, ten...)} {
		b.Run(name, func(b *testing.B) {
			var memory Memory
			m := codec.Message{Payload: []byte{9}, ID: 99, HasID: true}
			said := plainly("raknet", &m)
			for b.Loop() {
				s.Message(start, said, &memory)
			}
		})
	}
}
