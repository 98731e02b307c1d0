// Package module runs the modules of operators: WebAssembly that sees each message of a route. It bounds their time,
// memory and output. Start with Compile and Loop.
//
// wazero stops code in time only if a call watches a context. That costs a goroutine for each call, and time at each
// turn of a loop. So guard adds a counter to the code, which looks now and then whether its time is over. One goroutine
// tells the calls that take too long.
package module

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"tidegate/proxy/bridge"
	"tidegate/ratelimit"
)

// Bounds that no operator needs to change.
const (
	MaxFile    = 16 << 20  // the size of a module's file, in bytes
	maxMessage = 64 << 10  // of a message for a module, in bytes
	maxSent    = 256       // messages from one call
	maxOutput  = 256 << 10 // their bytes
	maxLine    = 256       // of the log, in bytes
	lineBurst  = 10        // lines at once; then one for each lineEvery
	lineEvery  = time.Second
	pageSize   = 64 << 10
	startTime  = 10 * time.Second // bounds the start of an instance
)

// Options bound a module.
type Options struct {
	Memory int           // in bytes
	Time   time.Duration // of a call
	Failed func(error)   // is told of each failure that costs an instance; it may run in a loop; nil: none
	// Log is told what the module says in a session, and how many lines were left out before. It runs in a loop, and the
	// text is lent. nil: none.
	Log   func(session uint64, text []byte, suppressed uint64)
	start time.Duration // of an instance; 0: startTime
}

// Program is a compiled module, with an instance for each loop. Nothing needs to close it.
type Program struct {
	options Options
	runtime wazero.Runtime
	code    wazero.CompiledModule
	loops   []*Loop
	watch   watch
	between time.Duration // the least time from one start of a failed instance to the next
	// Interpreted means that this machine has no compiler for WebAssembly, or forbids executable memory.
	Interpreted bool
}

// The interface that modules implement.
const (
	version     = "tidegate_v1"
	messageName = version + "_message"
	bufferName  = version + "_buffer"
	endedName   = version + "_ended"
	wasiName    = "wasi_snapshot_preview1"
)

// Compile makes a Program for a number of loops, and starts an instance for each.
func Compile(file []byte, o Options, loops int) (*Program, error) {
	guarded, check, err := guard(file)
	if err != nil {
		return nil, err
	}
	p, err := compile(guarded, check, o, wazero.NewRuntimeConfig())
	if errors.Is(err, errMachine) {
		if p, err = compile(guarded, check, o, wazero.NewRuntimeConfigInterpreter()); p != nil {
			p.Interpreted = true
		}
	}
	if err != nil {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	p.watch.program = p
	for range loops {
		l := &Loop{program: p, lines: ratelimit.Limiter{Every: lineEvery, Burst: lineBurst}}
		i, err := l.start()
		if err != nil {
			return nil, err
		}
		l.current.Store(i)
		p.loops = append(p.loops, l)
	}
	return p, nil
}

// Loop implements bridge.Program.
func (p *Program) Loop(number int) bridge.Module { return p.loops[number] }

// errMachine says that the machine cannot compile.
var errMachine = errors.New("no executable memory")

func compile(file []byte, check uint32, o Options, config wazero.RuntimeConfig) (p *Program, err error) {
	defer func() {
		if r := recover(); r != nil { // wazero panics where memory must not be executable
			p, err = nil, fmt.Errorf("%w: %v", errMachine, r)
		}
	}()
	config = config.WithDebugInfoEnabled(false).WithMemoryLimitPages(uint32(max(1, o.Memory/pageSize))).
		WithMemoryCapacityFromMax(true)
	ctx := experimental.WithFunctionListenerFactory(context.Background(), listener(check))
	p = &Program{options: o, between: time.Second, runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	p.code, err = p.runtime.CompileModule(ctx, file)
	return p, err
}

const i32, i64 = api.ValueTypeI32, api.ValueTypeI64

// exports are the functions that a module has.
var exports = []struct {
	name    string
	params  []api.ValueType
	results []api.ValueType
}{
	{messageName, []api.ValueType{i32, i32, i32, i32, i32, i32, i64}, []api.ValueType{i32}},
	{bufferName, []api.ValueType{i32}, []api.ValueType{i32}},
	{endedName, []api.ValueType{i64}, nil},
}

var otherVersion = regexp.MustCompile(`^tidegate_v\d+_message$`)

// prepare checks that the module implements the interface, and makes what it imports.
func (p *Program) prepare() error {
	have := p.code.ExportedFunctions()
	for name := range have {
		if otherVersion.MatchString(name) && name != messageName {
			return fmt.Errorf("it exports %s; this release has version 1 of the interface, with %s", name, messageName)
		}
	}
	for _, f := range exports {
		is, ok := have[f.name]
		switch {
		case !ok && f.name != endedName:
			return fmt.Errorf("it does not export the function %s", f.name)
		case ok && (string(is.ParamTypes()) != string(f.params) || string(is.ResultTypes()) != string(f.results)):
			return fmt.Errorf("its function %s has other parameters or results", f.name)
		}
	}
	if p.code.ExportedMemories()["memory"] == nil {
		return errors.New(`it does not export its memory as "memory"`)
	}
	wasi := false
	for _, f := range p.code.ImportedFunctions() {
		from, name, _ := f.Import()
		_, known := hostFunctions[name]
		switch {
		case from == wasiName:
			wasi = true
		case from != version || !known:
			return fmt.Errorf("it imports %s of %s, which Tidegate does not have", name, from)
		}
	}
	ctx := context.Background()
	if wasi {
		if _, err := wasi_snapshot_preview1.Instantiate(ctx, p.runtime); err != nil {
			return err
		}
	}
	host := p.runtime.NewHostModuleBuilder(version)
	for name, f := range hostFunctions {
		host.NewFunctionBuilder().WithGoModuleFunction(f.does, f.params, f.results).Export(name)
	}
	_, err := host.Instantiate(ctx)
	return err
}
