package codectest

import (
	"time"

	"tidegate/internal/testkit/simnet"
)

// clear20 is the weather of checks that are not about weather.
var clear20 = simnet.Weather{Latency: 20 * time.Millisecond}

// weather is one kind of network to pass, and how many seeds of it.
type weather struct {
	name   string
	net    simnet.Weather
	seeds  int
	calm   bool // nothing is lost, doubled or overtaken
	excuse bool // a handshake may fail now and then
}

// foul is the weather that the whole suite is judged by.
var foul = weather{
	name: "foul", seeds: 200, excuse: true,
	net: simnet.Weather{Loss: 0.2, Duplication: 0.1, Latency: 20 * time.Millisecond, Jitter: 100 * time.Millisecond},
}

// weathers are all of them. Latency stays where Riptide, which gives up on a message after about 700 ms, can live.
var weathers = []weather{
	{name: "clear", net: clear20, seeds: 10, calm: true},
	foul,
	{name: "reordered", net: simnet.Weather{Latency: time.Millisecond, Jitter: 150 * time.Millisecond}, seeds: 20},
	{name: "distant", net: simnet.Weather{Latency: 250 * time.Millisecond, Jitter: 5 * time.Millisecond}, seeds: 10},
}
