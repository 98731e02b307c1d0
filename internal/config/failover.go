package config

// Failover is what becomes of players whose server is lost.
type Failover string

// Ways to treat them.
const (
	FailoverDisconnect Failover = "disconnect" // they are told goodbye, and may come again by themselves
	FailoverHold       Failover = "hold"       // they are kept while a server is sought
)

// Choices lists the values in the configuration.
func (Failover) Choices() []string { return words(FailoverDisconnect, FailoverHold) }

// failover checks a route's way to treat players whose server is lost.
func (v *validator) failover(path string, r Route) {
	within(v.report, child(path, "hold_time"), r.HoldTime, seconds(1), seconds(600))
	if r.Mode == Relay && r.Failover == FailoverHold {
		v.fault(child(path, "failover"), r.Failover, `"disconnect": a route in mode "relay" does not know what players say`)
	}
}
