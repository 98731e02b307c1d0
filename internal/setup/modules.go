package setup

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/module"
	"tidegate/internal/policy"
	"tidegate/internal/regular"
	"tidegate/proxy/relay"
)

// Modules compiles the modules of configurations. A module of the last configuration that has not changed stays as it
// is, with its memory. The zero value is ready. It is not safe for concurrent use.
type Modules struct {
	// Failed is told when an instance fails, perhaps in a loop. Says is module.Options.Log. nil: none.
	Failed func(route, module string, err error)
	Says   func(route, module string, session uint64, text []byte, suppressed uint64)

	made, before map[moduleKey]*module.Program
}

// moduleKey has all that a Program depends on.
type moduleKey struct {
	route, name  string
	content      [sha256.Size]byte
	memory, time int64
	loops        int
}

// Add gives the routes of settings the modules of their configuration. The error is nil or config.Faults.
func (m *Modules) Add(s *relay.Settings, c *config.Config, loops int) error {
	routes, made := make(map[string][]relay.RouteModule), make(map[moduleKey]*module.Program)
	for i := range c.Routes {
		r := &c.Routes[i]
		for j := range r.Modules {
			if r.Mode.Is(policy.ModeRelay) {
				continue
			}
			p, err := m.program(c, r, &r.Modules[j], loops, made)
			if err != nil {
				return c.ModuleFault(i, j, err)
			}
			routes[r.Name] = append(routes[r.Name], relay.RouteModule{
				Name: r.Modules[j].Name(), Program: p, Passes: r.Modules[j].OnFailure.Is(policy.FailurePasses),
			})
		}
	}
	for i := range s.Listeners {
		of, _, _ := strings.Cut(s.Listeners[i].Route.Name, ":") // of several ports
		s.Listeners[i].Route.Modules = routes[of]
	}
	m.made, m.before = made, m.made
	return nil
}

// program returns a compiled module, and adds it to made.
func (m *Modules) program(c *config.Config, r *config.Route, of *config.RouteModule, loops int,
	made map[moduleKey]*module.Program) (*module.Program, error) {
	content, err := readModule(c.Path(of.File))
	if err != nil {
		return nil, err
	}
	key := moduleKey{r.Name, of.Name(), sha256.Sum256(content), int64(of.Memory), int64(of.Time), loops}
	for _, from := range []map[moduleKey]*module.Program{m.made, m.before} {
		if made[key] = from[key]; made[key] != nil {
			return made[key], nil
		}
	}
	options := module.Options{Memory: int(of.Memory), Time: time.Duration(of.Time)}
	if m.Failed != nil {
		options.Failed = func(err error) { m.Failed(r.Name, of.Name(), err) }
	}
	if m.Says != nil {
		options.Log = func(session uint64, text []byte, n uint64) { m.Says(r.Name, of.Name(), session, text, n) }
	}
	made[key], err = module.Compile(content, options, loops)
	return made[key], err
}

var errModuleSize = fmt.Errorf("the file has more than %d MiB", module.MaxFile>>20)

func readModule(path string) ([]byte, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, module.MaxFile+1))
	if len(content) > module.MaxFile {
		return nil, errModuleSize
	}
	return content, err
}

// CompileRemedy is what operators can do about modules that are interpreted.
const CompileRemedy = "systemctl edit tidegate, with the lines [Service] and MemoryDenyWriteExecute=no, and a restart"

// Interpreted returns the first module that this machine cannot compile, or "".
func (m *Modules) Interpreted() string {
	for key, p := range m.made {
		if p.Interpreted {
			return key.name
		}
	}
	return ""
}
