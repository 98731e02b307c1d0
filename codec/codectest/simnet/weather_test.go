package simnet

import (
	"slices"
	"testing"
	"time"
)

func TestLossAndDuplicationHaveTheirShares(t *testing.T) {
	for _, test := range []struct {
		what     string
		weather  Weather
		min, max int
	}{
		{"clear", Weather{}, 1000, 1000},
		{"20 % loss", Weather{Loss: 0.2}, 750, 850},
		{"10 % duplication", Weather{Duplication: 0.1}, 1070, 1130},
		{"cut", Weather{Loss: 1}, 0, 0},
		{"at the MTU", Weather{MTU: 100}, 1000, 1000},
		{"above the MTU", Weather{MTU: 99}, 0, 0},
	} {
		if _, _, echo := sendThousand(t, 1, test.weather); len(echo.in) < test.min || len(echo.in) > test.max {
			t.Errorf("%s: %d of 1000 arrived, want %d to %d", test.what, len(echo.in), test.min, test.max)
		}
	}
}

func TestJitterReorders(t *testing.T) {
	_, _, echo := sendThousand(t, 1, Weather{Jitter: 100 * time.Millisecond})
	numbers := echo.numbers()
	if slices.IsSorted(numbers) {
		t.Error("100 ms of jitter over 10 ms of spacing kept the order")
	}
	slices.Sort(numbers)
	if len(slices.Compact(numbers)) != 1000 {
		t.Errorf("%d of 1000 arrived", len(numbers))
	}
}

func TestPathHasItsOwnWeather(t *testing.T) {
	n, sender, echo := pairOf(t, 1, Weather{})
	n.SetPath(addrA, addrB, Weather{Loss: 1})
	sender.send(addrA, addrB, 1, 4)
	sender.send(addrA, addrC, 2, 4)
	n.Run(time.Second)
	n.SetWeather(Weather{Loss: 1})
	n.SetPath(addrA, addrB, Weather{})
	sender.send(addrA, addrB, 3, 4)
	sender.send(addrA, addrC, 4, 4)
	n.Run(time.Second)
	if got := echo.numbers(); !slices.Equal(got, []uint32{2, 3}) {
		t.Errorf("echo received %v, want 2 and 3", got)
	}
}

func TestBandwidthSpreadsAndDrops(t *testing.T) {
	n, sender, echo := pairOf(t, 1, Weather{Bandwidth: 1000, Backlog: 250 * time.Millisecond})
	start := n.Now()
	for i := range uint32(10) {
		sender.send(addrA, addrB, i, 100)
	}
	n.Run(time.Minute)
	if got := echo.numbers(); !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Fatalf("echo received %v, want the three that fit the backlog", got)
	}
	for i, a := range echo.in {
		if want := start.Add(time.Duration(i+1) * 100 * time.Millisecond); a.at != want {
			t.Errorf("datagram %d arrived at %v, want %v", i, a.at, want)
		}
	}
}
