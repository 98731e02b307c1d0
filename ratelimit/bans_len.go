package ratelimit

// Len is how many bans are kept: those in force, and those that are over but remembered. Safe for concurrent use.
func (b *Bans) Len() int { return b.table.Load().Size() }
