package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/proxy/relay"
)

const moduled = `[[listener]]
name = "public"
address = "127.0.0.1:7777-7778"
protocols = ["riptide-2.2"]
route = "arena"
[[upstream]]
name = "arena"
protocol = "riptide-2.2"
servers = ["127.0.0.2:7777-7778"]
[[route]]
name = "arena"
upstream = "arena"
  [[route.module]]
  file = "odd.wasm"
  on_failure = "pass"
`

// addModules gives the settings of a file their modules.
func addModules(t *testing.T, m *Modules, path string) (*relay.Settings, error) {
	t.Helper()
	c := loaded(t, path)
	s := Settings(c, 2, NewSecrets())
	return s, m.Add(s, c, 2)
}

// TestModulesStayUntilTheyChange keeps the programs of modules whose file and bounds are as before.
func TestModulesStayUntilTheyChange(t *testing.T) {
	odd, err := os.ReadFile("../module/testdata/odd.wasm")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tidegate.toml")
	put := func(name, content string) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("tidegate.toml", moduled)
	put("odd.wasm", string(odd))
	var m Modules
	programs := func() (all []relay.RouteModule) {
		s, err := addModules(t, &m, path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Listeners {
			all = append(all, s.Listeners[i].Route.Modules...)
		}
		if len(all) != 2 || all[0].Program != all[1].Program || all[0].Name != "odd" || !all[0].Passes {
			t.Fatalf("the two ports have %+v", all)
		}
		return all
	}
	first := programs()[0].Program
	put("tidegate.toml", strings.Replace(moduled, "[[route]]", "[[route]]\nqueue = \"1MiB\"", 1))
	if programs()[0].Program != first {
		t.Error("a reload for another key replaces the module")
	}
	put("tidegate.toml", moduled+"time = \"20ms\"\n")
	if programs()[0].Program == first {
		t.Error("another bound leaves the module as it was")
	}
	put("odd.wasm", string(odd)+"\x00\x01\x00") // a section without meaning
	put("tidegate.toml", moduled)
	if programs()[0].Program == first {
		t.Error("another file leaves the module as it was")
	}
	put("odd.wasm", "no module")
	_, err = addModules(t, &m, path)
	const want = `tidegate.toml:14:10: route[0].module[0].file = "odd.wasm": want a module that can be used: ` +
		`it is not a WebAssembly module of version 1`
	if _, isFault := err.(config.Faults); !isFault || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := os.Truncate(filepath.Join(filepath.Dir(path), "odd.wasm"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err = addModules(t, &m, path); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Error(err)
	}
}
