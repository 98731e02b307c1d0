package module

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
	"tidegate/ratelimit"
)

// Errors of Handle.
var (
	ErrAway  = errors.New("the module has failed, and starts again")
	ErrLarge = fmt.Errorf("the message is larger than the %d bytes that modules take", maxMessage)
	ErrTime  = errors.New("the module took too long")
)

// Loop is the place of a module in a loop. It implements bridge.Module.
type Loop struct {
	program *Program
	current atomic.Pointer[instance] // nil while a new one starts
	started time.Time                // when a new one was started after a failure; for restart
	lines   ratelimit.Limiter        // of the log
	unsaid  uint64                   // lines since the last one
}

// instance is a running module. As a context, it tells the functions of the host who calls.
type instance struct {
	context.Context

	loop           *Loop
	code           api.Module
	memory         api.Memory
	message, ended api.Function
	buffer         uint32

	slow  atomic.Uint32 // the calls at which the watch saw that one takes long
	since used          // of the slow call; its thread is 0 without one
	limit time.Duration
	calls atomic.Uint32 // begun and ended: odd while one runs
	stack [7]uint64     // of a call
	call  *bridge.Call
	end   bridge.Call // of a session
	sent  []bridge.Sent
	bytes []byte // of sent
}

// Value implements context.Context. It is fast, since each call asks.
func (*instance) Value(any) any { return nil }

// start makes a new instance.
func (l *Loop) start() (*instance, error) {
	p := l.program
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(p.options.start, startTime))
	defer cancel()
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithRandSource(rand.Reader).
		WithSysWalltime().WithSysNanotime()
	code, err := p.runtime.InstantiateModule(ctx, p.code, config)
	if err != nil {
		return nil, fmt.Errorf("it does not start: %w", err)
	}
	at, err := code.ExportedFunction(bufferName).Call(ctx, maxMessage)
	if err != nil {
		_ = code.Close(ctx)
		return nil, fmt.Errorf("it does not start: %w", err)
	}
	i := &instance{Context: context.Background(), loop: l, code: code, memory: code.ExportedMemory("memory"),
		buffer: uint32(at[0]), limit: p.options.Time}
	i.message, i.ended = code.ExportedFunction(messageName), code.ExportedFunction(endedName)
	if _, ok := i.memory.Read(i.buffer, maxMessage); !ok {
		_ = code.Close(ctx)
		return nil, fmt.Errorf("its function %s returns %d, where its memory has no room for %d bytes", bufferName, i.buffer,
			maxMessage)
	}
	return i, nil
}

// Verdicts of a module about a message.
const (
	passes = 0
	drops  = 1
)

// Handle implements bridge.Module.
func (l *Loop) Handle(c *bridge.Call) (bool, error) {
	i, m := l.current.Load(), c.Message
	switch {
	case i == nil:
		return false, ErrAway
	case len(m.Payload) > maxMessage:
		return false, ErrLarge
	case !i.memory.Write(i.buffer, m.Payload):
		return false, l.fail(i, errPointer) // memory never shrinks: another buffer was promised
	}
	id := int32(-1)
	if m.HasID {
		id = int32(m.ID)
	}
	side := uint64(client)
	if c.From == policy.FromUpstream {
		side = server
	}
	i.stack = [...]uint64{
		side, uint64(m.Mode), uint64(m.Channel), uint64(uint32(id)), uint64(i.buffer), uint64(len(m.Payload)),
		c.Session,
	}
	i.call, i.sent, i.bytes = c, i.sent[:0], i.bytes[:0]
	err := l.run(i, i.message)
	i.call = nil
	verdict := uint32(i.stack[0])
	if err == nil && verdict > drops {
		err = fmt.Errorf("it answers %d, want %d to pass or %d to drop", verdict, passes, drops)
	}
	if err != nil {
		return false, l.fail(i, err)
	}
	c.Sent = i.sent
	return verdict == passes, nil
}

// Ended implements bridge.Module.
func (l *Loop) Ended(now time.Time, session uint64) {
	i := l.current.Load()
	if i == nil || i.ended == nil {
		return
	}
	i.end.Now, i.end.Session, i.stack[0] = now, session, session
	i.call = &i.end
	err := l.run(i, i.ended)
	if i.call = nil; err != nil {
		_ = l.fail(i, err)
	}
}

// run calls a function of a module, while the watch sees to its end.
func (l *Loop) run(i *instance, f api.Function) error {
	begun := i.calls.Load() + 1
	i.calls.Store(begun)
	l.program.watch.wake()
	err := f.CallWithStack(i, i.stack[:])
	i.calls.Store(begun + 1)
	if i.slow.Load() == begun {
		i.since = used{}
	}
	return err
}

// fail gives up an instance, and starts a new one beside the loop. It returns why, without the trace of the stack.
func (l *Loop) fail(i *instance, why error) error {
	text, trace, traced := strings.Cut(why.Error(), "\nwasm stack trace:\n\t")
	cause := slices.IndexFunc(causes, func(cause error) bool { return errors.Is(why, cause) })
	if cause >= 0 {
		why = causes[cause]
	} else if traced {
		trace, _, _ = strings.Cut(trace, "\n")
		why = fmt.Errorf("%s in %s", strings.TrimSuffix(text, " (recovered by wazero)"), trace)
	}
	l.current.Store(nil)
	if l.program.options.Failed != nil {
		l.program.options.Failed(why)
	}
	go l.restart(i)
	return why
}

// restart replaces an instance that has failed.
func (l *Loop) restart(old *instance) {
	_ = old.code.Close(context.Background())
	for {
		time.Sleep(l.program.between - time.Since(l.started))
		l.started = time.Now()
		if i, err := l.start(); err == nil {
			l.current.Store(i)
			return
		}
	}
}

// Sides of a session, as modules know them.
const (
	client = 0
	server = 1
)

var (
	errPointer = errors.New("it names memory that it does not have")
	errSend    = errors.New("it sends a message to an unknown side, or with an unknown mode, channel or ID")
	errOutput  = fmt.Errorf("it sends more than %d messages or %d bytes for one", maxSent, maxOutput)
	errEarly   = errors.New("it calls Tidegate before its first message")
	errState   = fmt.Errorf("it keeps more than %d bytes for a session", bridge.MaxState)
)

// causes are the failures that need no more words.
var causes = []error{ErrTime, errPointer, errSend, errOutput, errState}

// hostFunctions are what a module may call. A panic ends the module's call.
var hostFunctions = map[string]struct {
	does            api.GoModuleFunc
	params, results []api.ValueType
}{
	"send":        {send, []api.ValueType{i32, i32, i32, i32, i32, i32}, nil},
	"now":         {now, nil, []api.ValueType{i64}},
	"log":         {writeLine, []api.ValueType{i32, i32}, nil},
	"state_read":  {stateRead, []api.ValueType{i32, i32}, []api.ValueType{i32}},
	"state_write": {stateWrite, []api.ValueType{i32, i32}, nil},
}

// calling returns the instance that calls. A module that starts has no call.
func calling(ctx context.Context) *instance {
	i, ok := ctx.(*instance)
	if !ok || i.call == nil {
		panic(errEarly)
	}
	return i
}

// read returns memory of a module, which is lent.
func read(m api.Module, at, size uint64) []byte {
	b, ok := m.Memory().Read(uint32(at), uint32(size))
	if !ok {
		panic(errPointer)
	}
	return b
}

// send sends a message: to a side, with mode, channel, ID, and the place and size of its payload.
func send(ctx context.Context, m api.Module, stack []uint64) {
	i := calling(ctx)
	to, mode, channel, id := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), int32(uint32(stack[3]))
	payload := read(m, stack[4], stack[5])
	switch {
	case to > server || int(mode) >= codec.ModeCount || channel > 255 || id < -1 || id > 0xffff || i.call.Message == nil:
		panic(errSend)
	case len(i.sent) >= maxSent || len(i.bytes)+len(payload) > maxOutput:
		panic(errOutput)
	}
	from := policy.FromClient
	if to == client {
		from = policy.FromUpstream
	}
	i.bytes = append(i.bytes, payload...)
	i.sent = append(i.sent, bridge.Sent{From: from, Message: codec.Message{
		Mode: codec.Mode(mode), Channel: uint8(channel), ID: uint16(max(id, 0)), HasID: id >= 0,
		Payload: i.bytes[len(i.bytes)-len(payload) : len(i.bytes) : len(i.bytes)],
	}})
}

// now returns the time of the loop's turn, in milliseconds since 1970.
func now(ctx context.Context, _ api.Module, stack []uint64) {
	stack[0] = uint64(calling(ctx).call.Now.UnixMilli())
}

// writeLine writes a line into the log, or counts it if there are too many.
func writeLine(ctx context.Context, m api.Module, stack []uint64) {
	i, text := calling(ctx), read(m, stack[0], stack[1])
	l := i.loop
	if !l.lines.Allow(i.call.Now) {
		l.unsaid++
		return
	}
	if l.program.options.Log != nil {
		l.program.options.Log(i.call.Session, text[:min(len(text), maxLine)], l.unsaid)
	}
	l.unsaid = 0
}

// stateRead copies what the module keeps with the session, as much as there is room for. It returns the whole size.
func stateRead(ctx context.Context, m api.Module, stack []uint64) {
	i, room := calling(ctx), read(m, stack[0], stack[1])
	stack[0] = 0
	if i.call.State != nil {
		copy(room, *i.call.State)
		stack[0] = uint64(len(*i.call.State))
	}
}

// stateWrite replaces what the module keeps with the session.
func stateWrite(ctx context.Context, m api.Module, stack []uint64) {
	i, state := calling(ctx), read(m, stack[0], stack[1])
	if len(state) > bridge.MaxState || i.call.State == nil {
		panic(errState)
	}
	*i.call.State = append((*i.call.State)[:0], state...)
}
