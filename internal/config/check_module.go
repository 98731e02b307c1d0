package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"tidegate/internal/policy"
)

// maxModules bounds the modules of a route.
const maxModules = 4

// RouteModule is a module in WebAssembly, which sees each message of a route.
type RouteModule struct {
	File      string   `toml:"file"`
	OnFailure Failure  `toml:"on_failure"`
	Memory    Size     `toml:"memory" default:"16MiB" min:"64KiB" max:"1GiB"`
	Time      Duration `toml:"time" default:"10ms" min:"1ms" max:"1s"`
}

// Failure is the word for what becomes of messages while a module fails.
type Failure = Word[policy.Failure]

// Name returns the module's name: that of its file.
func (m *RouteModule) Name() string {
	name := filepath.Base(m.File)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// modules checks the modules of the route at path.
func (v *validator) modules(path string, r Route) {
	key := child(path, "module")
	if len(r.Modules) > maxModules {
		v.fault(item(key, maxModules), nil, fmt.Sprintf("at most %d modules", maxModules))
		return
	}
	for i := range r.Modules {
		m, entry := &r.Modules[i], item(key, i)
		if m.File == "" {
			v.fault(child(entry, "file"), nil, "the path of a module in WebAssembly")
		}
		if m.OnFailure == "" {
			v.fault(child(entry, "on_failure"), nil, expected(failureType))
		}
		for j := range i {
			if m.File != "" && r.Modules[j].Name() == m.Name() {
				v.fault(child(entry, "file"), m.File, "a name of its own; "+v.where(item(key, j))+" has it already")
			}
		}
	}
}

// ModuleFault returns the fault of a module that cannot be used, by the numbers of its route and of it.
func (c *Config) ModuleFault(route, module int, err error) error {
	r := newReport(c.places)
	key := child(item(child(item("route", route), "module"), module), "file")
	r.fault(key, c.Routes[route].Modules[module].File, "a module that can be used: "+err.Error())
	_, fault := r.result()
	return fault
}
