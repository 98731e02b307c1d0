package ratelimit

// Verdict is what becomes of a datagram, a message or a newcomer that a limit or a rule is about.
type Verdict uint8

// Verdicts, from the mildest to the hardest. Whoever has no session can only be dropped.
const (
	Pass       Verdict = iota
	Observe            // it passes; what would have been done is counted
	Drop               // it goes no further
	Disconnect         // and its session ends
	BanSource          // and its address is banned, if the session has proved it
	verdictCount
)

var verdictNames = [verdictCount]string{"pass", "observe", "drop", "disconnect", "ban"}

// String is the verdict's name as in configuration, logs and metrics.
func (v Verdict) String() string {
	if v < verdictCount {
		return verdictNames[v]
	}
	return "unknown"
}
