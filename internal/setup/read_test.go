package setup

import (
	"fmt"
	"slices"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/filter"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/ratelimit"
)

// wordsOf checks that each word of a choice in the configuration has a value, no two the same, but for some.
func wordsOf[E comparable, P named[E], C interface {
	~string
	Choices() []string
}](t *testing.T, but ...string) {
	t.Helper()
	var choice C
	seen := make(map[E]string)
	for _, word := range choice.Choices() {
		if slices.Contains(but, word) {
			continue
		}
		value := read[E, P](word)
		if other, taken := seen[value]; taken {
			t.Errorf("%T: %q means what %q means", value, word, other)
		}
		seen[value] = word
		if text, ok := any(value).(fmt.Stringer); ok && text.String() != word && word != "allow" {
			t.Errorf("%T: %q is written %q", value, word, text)
		}
	}
}

// TestEveryWordIsRead: each word that the configuration takes is one of the package that it is for.
func TestEveryWordIsRead(t *testing.T) {
	wordsOf[proxy.Mode, *proxy.Mode, config.Mode](t)
	wordsOf[proxy.Admit, *proxy.Admit, config.Admit](t)
	wordsOf[proxy.Ordered, *proxy.Ordered, config.Ordered](t)
	wordsOf[proxy.Reliable, *proxy.Reliable, config.Reliable](t)
	wordsOf[proxy.Envelope, *proxy.Envelope, config.Envelope](t)
	wordsOf[proxy.Headers, *proxy.Headers, config.ProxyProtocol](t)
	wordsOf[upstream.Balance, *upstream.Balance, config.Balance](t)
	wordsOf[filter.Direction, *filter.Direction, config.Sender](t)
	wordsOf[ratelimit.Quantity, *ratelimit.Quantity, config.Quantity](t)
	wordsOf[ratelimit.Scope, *ratelimit.Scope, config.Scope](t)
	wordsOf[ratelimit.Verdict, *ratelimit.Verdict, config.LimitVerdict](t, string(config.LimitOff)) // not an effective limit
	wordsOf[ratelimit.Verdict, *ratelimit.Verdict, config.FilterVerdict](t)
	wordsOf[ratelimit.Verdict, *ratelimit.Verdict, config.AccessVerdict](t)
}

// TestUnspokenWordIsNone: a word that the file does not have is the zero value.
func TestUnspokenWordIsNone(t *testing.T) {
	if got := read[proxy.Ordered](config.Ordered("")); got != proxy.OrderedUnset {
		t.Errorf("%d", got)
	}
}
