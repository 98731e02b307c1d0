package bench

import "context"

// interruption ends a measurement early. Its zero value never does.
type interruption struct{ ctx context.Context }

// err is why nothing goes on, or nil.
func (i interruption) err() error {
	if i.ctx == nil {
		return nil
	}
	return context.Cause(i.ctx)
}
