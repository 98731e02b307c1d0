package config

// Failover is the treatment of players whose server is lost.
type Failover string

// Treatments.
const (
	FailoverDisconnect Failover = "disconnect" // disconnected; they may join again
	FailoverHold       Failover = "hold"       // held while Tidegate looks for a server
)

// Choices lists the words of the configuration.
func (Failover) Choices() []string { return words(FailoverDisconnect, FailoverHold) }

// failover checks a route's treatment of players whose server is lost.
func (v *validator) failover(path string, r Route) {
	within(v.report, child(path, "hold_time"), r.HoldTime, seconds(1), seconds(600))
	if r.Mode == Relay && r.Failover == FailoverHold {
		v.fault(child(path, "failover"), r.Failover, `"disconnect": a route in mode "relay" does not understand the players' protocol`)
	}
}
