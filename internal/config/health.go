package config

// Health is how an upstream's servers are asked whether they are there.
type Health string

// Ways to ask.
const (
	HealthAuto    Health = "auto"    // ping where the protocol has one, else off
	HealthOff     Health = "off"     // not: players' sessions alone tell
	HealthPing    Health = "ping"    // the question that server lists ask
	HealthConnect Health = "connect" // joining, and leaving at once
)

// Choices lists the values in the configuration.
func (Health) Choices() []string { return words(HealthAuto, HealthOff, HealthPing, HealthConnect) }

// health checks how an upstream's servers are asked.
func (v *validator) health(path string, u Upstream) {
	key := child(path, "health")
	switch t := v.known[u.Protocol]; {
	case u.Health == HealthPing && !t.Pings, u.Health == HealthPing && u.Transport == TCP:
		v.fault(key, u.Health, `"connect" or "off": `+u.Protocol+" servers have no question for server lists")
	case u.Health == HealthConnect && t.Pings:
		v.fault(key, u.Health, `"ping", which no player notices`)
	case u.Health == HealthConnect && (t.Closed || t.Opaque):
		v.fault(key, u.Health, `"off": players of `+u.Protocol+" have no goodbye, so each check would stay in the game")
	}
	within(v.report, child(path, "health_interval"), u.HealthInterval, milliseconds(100), seconds(3600))
	if u.HealthTimeout < milliseconds(10) || u.HealthTimeout > u.HealthInterval {
		v.fault(child(path, "health_timeout"), u.HealthTimeout, `"10ms" to health_interval, which is `+u.HealthInterval.String())
	}
	within(v.report, child(path, "health_rise"), u.HealthRise, 1, 100)
	within(v.report, child(path, "health_fall"), u.HealthFall, 1, 100)
}
