package module

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// watch notes the calls that take long. Its goroutine runs while calls come, and ends without them.
type watch struct {
	program *Program
	awake   atomic.Bool
}

// idleLooks is the number of looks without a call after which the watch ends.
const idleLooks = 40

// wake starts the goroutine of the watch. Loops call it.
func (w *watch) wake() {
	if !w.awake.Load() && w.awake.CompareAndSwap(false, true) {
		go w.run()
	}
}

// run looks four times in the time of a call.
func (w *watch) run() {
	loops := w.program.loops
	seen := make([]look, len(loops))
	ticker := time.NewTicker(max(w.program.options.Time/4, time.Millisecond/2))
	defer ticker.Stop()
	for idle := 0; idle < idleLooks; idle++ {
		<-ticker.C
		for n, l := range loops {
			if seen[n].at(l.current.Load()) {
				idle = 0
			}
		}
	}
	w.awake.Store(false)
	for _, l := range loops { // a call may have begun meanwhile
		if i := l.current.Load(); i != nil && running(i.calls.Load()) {
			w.wake()
		}
	}
}

// look is what the watch saw of an instance.
type look struct {
	of    *instance
	calls uint32
}

// at looks at an instance. It reports whether there were calls since the last look.
func (l *look) at(i *instance) bool {
	if i == nil {
		return false
	}
	last := *l
	if *l = (look{i, i.calls.Load()}); *l == last && running(l.calls) {
		i.slow.Store(l.calls)
		return true
	}
	return *l != last
}

// running reports whether a call runs, by the calls of an instance.
func running(calls uint32) bool { return calls%2 == 1 }

// listener makes a listener to the function check, by its number. It implements experimental.FunctionListenerFactory.
type listener uint32

// NewFunctionListener returns a listener to check, and nil for all other functions.
func (l listener) NewFunctionListener(f api.FunctionDefinition) experimental.FunctionListener {
	if f.Index() != uint32(l) {
		return nil
	}
	return experimental.FunctionListenerFunc(endLate)
}

// endLate ends a call that is late, or a start.
func endLate(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	if i, ok := ctx.(*instance); ok && i.isLate() || !ok && ctx.Err() != nil {
		panic(ErrTime)
	}
}

// used is the processor time that a thread has used.
type used struct {
	thread int
	time   time.Duration
}

// isLate reports whether a call has used too much time. The watch cannot know whether the system let the call run. So
// from its note on, the time of the processor counts.
func (i *instance) isLate() bool {
	if i.slow.Load() != i.calls.Load() {
		return false
	}
	thread, time := threadTime()
	if i.since.thread != thread || i.since.time == 0 {
		i.since = used{thread, time}
	}
	return time-i.since.time > i.limit
}
