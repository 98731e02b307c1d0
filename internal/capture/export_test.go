package capture

// MaxFlows is maxFlows for tests.
const MaxFlows = maxFlows

// Flows returns the number of stream directions whose bytes are counted.
func (w *Writer) Flows() int { return len(w.headers.sent) }
