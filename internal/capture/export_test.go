package capture

// MaxWays is for tests.
const MaxWays = maxWays

// Ways is how many directions of streams are counted.
func (w *Writer) Ways() int { return len(w.headers.sent) }
