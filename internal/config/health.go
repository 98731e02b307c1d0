package config

// Health is the method that checks whether an upstream's servers are up.
type Health string

// Methods.
const (
	HealthAuto    Health = "auto"    // ping if the protocol has one, else off
	HealthOff     Health = "off"     // no checks: only sessions show failures
	HealthPing    Health = "ping"    // the ping of server lists
	HealthConnect Health = "connect" // joins, and leaves at once
)

// Choices lists the words of the configuration.
func (Health) Choices() []string { return words(HealthAuto, HealthOff, HealthPing, HealthConnect) }

// health checks the options of health checks.
func (v *validator) health(path string, u Upstream) {
	key := child(path, "health")
	switch t := v.known[u.Protocol]; {
	case u.Health == HealthPing && !t.Pings, u.Health == HealthPing && u.Transport == TCP:
		v.fault(key, u.Health, `"connect" or "off": `+u.Protocol+" servers do not answer pings")
	case u.Health == HealthConnect && t.Pings:
		v.fault(key, u.Health, `"ping", which players do not notice`)
	case u.Health == HealthConnect && (t.Closed || t.Opaque):
		v.fault(key, u.Health, `"off": `+u.Protocol+" has no disconnect message, so each check would remain in the game")
	}
	within(v.report, child(path, "health_interval"), u.HealthInterval, milliseconds(100), seconds(3600))
	if u.HealthTimeout < milliseconds(10) || u.HealthTimeout > u.HealthInterval {
		v.fault(child(path, "health_timeout"), u.HealthTimeout, `"10ms" to health_interval, which is `+u.HealthInterval.String())
	}
	within(v.report, child(path, "health_rise"), u.HealthRise, 1, 100)
	within(v.report, child(path, "health_fall"), u.HealthFall, 1, 100)
}
