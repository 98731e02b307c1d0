// Package packaging tests the files that ship beside the program. It has no code.
package packaging

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/version"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/config"
)

// metrics returns the names of the admin server's metrics, from its source.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	known := make(map[string]bool)
	files, err := filepath.Glob("../internal/admin/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := call.Fun.(*ast.Ident)
			if !ok {
				return true
			}
			switch name.Name {
			case "counter", "gauge":
				known["tidegate_"+text(call.Args[0])] = true
			case "newFamily":
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					known["tidegate_"+text(call.Args[1])+suffix] = true
				}
			}
			return true
		})
	}
	if len(known) < 20 {
		t.Fatalf("only %d metrics were found in the source", len(known))
	}
	return known
}

func text(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok {
		s, _ := strconv.Unquote(lit.Value)
		return s
	}
	return ""
}

// TestMetricsExist checks that dashboards and alerts name only existing metrics.
func TestMetricsExist(t *testing.T) {
	known := metrics(t)
	name := regexp.MustCompile(`\btidegate_[a-z_]+`)
	for _, file := range []string{"grafana/tidegate.json", "prometheus/alerts.yml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllString(string(b), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, m := range found {
			if !known[m] {
				t.Errorf("%s: there is no metric %s", file, m)
			}
		}
	}
}

// TestChartHidesTheToken checks that the token of the admin server is in a Secret only.
func TestChartHidesTheToken(t *testing.T) {
	templates, err := filepath.Glob("helm/tidegate/templates/*")
	if err != nil || len(templates) < 5 {
		t.Fatalf("%d templates, %v", len(templates), err)
	}
	for _, file := range templates {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if strings.Contains(text, "Values.admin.token") && !strings.Contains(text, "kind: Secret") {
			t.Errorf("%s has the token and is no Secret", file)
		}
		if strings.Contains(text, "Authorization") {
			t.Errorf("%s sends the token as a header", file)
		}
	}
}

// TestChartWritesEveryKeyOfFleets checks that the chart's [fleet] has each key of the configuration. The name of a node
// is that of its pod.
func TestChartWritesEveryKeyOfFleets(t *testing.T) {
	b, err := os.ReadFile("helm/tidegate/templates/_fleet.tpl")
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[config.Fleet]().Fields() {
		key := field.Tag.Get("toml")
		written := regexp.MustCompile(`(?m)^` + key + ` = |ternary "` + key + `" "|" "` + key + `" `).Match(b)
		if key == "" || written == (key == "node") {
			t.Errorf("key %q: the chart writes it: %v", key, written)
		}
	}
}

// TestPackagesHaveMemoryForTheDefaults checks that each package has twice the memory that the default limits let peers
// take. The service also has room for two processes, which an upgrade has for a while.
func TestPackagesHaveMemoryForTheDefaults(t *testing.T) {
	bound := config.Default().MemoryBound()
	if bound < 512<<20 {
		t.Fatalf("the default limits let peers take %d bytes", bound)
	}
	for _, p := range []struct {
		file, limit string
		processes   int64
	}{
		{"helm/tidegate/values.yaml", `limits: \{memory: (\d+)Gi\}`, 1},
		{"systemd/tidegate.service", `(?m)^MemoryMax=(\d+)G$`, 2},
		{"docker/Dockerfile", `docker run .*--memory (\d+)g `, 1},
		{"../README.md", `docker run -d --memory (\d+)g `, 1},
	} {
		b, err := os.ReadFile(p.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(p.limit).FindStringSubmatch(string(b))
		if found == nil {
			t.Errorf("%s has no limit of memory", p.file)
			continue
		}
		limit, _ := strconv.ParseInt(found[1], 10, 64)
		if want := 2 * bound * p.processes; limit<<30 < want || limit<<30 > 2*want {
			t.Errorf("%s has a limit of %d GiB; %d bytes are twice the bounds", p.file, limit, want)
		}
	}
}

func TestDashboardIsJSON(t *testing.T) {
	b, err := os.ReadFile("grafana/tidegate.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			GridPos struct{ X, Y int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil || len(d.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(d.Panels), err)
	}
	places := make(map[struct{ X, Y int }]string)
	for _, p := range d.Panels {
		if len(p.Targets) == 0 || p.Targets[0].Expr == "" {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		if other, taken := places[p.GridPos]; taken {
			t.Errorf("panel %q covers panel %q", p.Title, other)
		}
		places[p.GridPos] = p.Title
	}
}

// TestAlertsAreExplained checks that the manual explains each alert.
func TestAlertsAreExplained(t *testing.T) {
	rules, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	if len(names) == 0 {
		t.Error("no alerts")
	}
	const link = `runbook_url: "{{ $externalLabels.docs_url }}/docs/operate/metrics.html#alerts"`
	if links := strings.Count(string(rules), link); links != len(names) {
		t.Errorf("%d of %d alerts link to the manual", links, len(names))
	}
	for _, n := range names {
		if !strings.Contains(string(manual), "`"+n[1]+"`") {
			t.Errorf("docs/operate/metrics.md does not tell what to do about %s", n[1])
		}
	}
}

// TestPackagesHaveTheirFiles checks that every file that the packages' recipe names is in the source, or is made by the
// release tool.
func TestPackagesHaveTheirFiles(t *testing.T) {
	recipe, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`(?:src|install|remove|upgrade): "?([\w./-]+|\$)`)
	sources := source.FindAllStringSubmatch(string(recipe), -1)
	if len(sources) < 20 {
		t.Fatalf("%d sources", len(sources))
	}
	for _, s := range sources {
		if s[1] == "$" {
			continue
		}
		if _, err := os.Stat("../" + s[1]); err != nil {
			t.Error(err)
		}
	}
}

// TestScripts checks that the shell reads every script of the packages and of OpenRC.
func TestScripts(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	var scripts []string
	for _, pattern := range []string{"deb/*", "rpm/*", "apk/*", "openrc/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, files...)
	}
	if len(scripts) != 11 {
		t.Errorf("%d scripts: %q", len(scripts), scripts)
	}
	for _, script := range scripts {
		if out, err := exec.Command(shell, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// TestPurgeDeletesTheState runs Debian's script in another root folder. A removal and an upgrade keep the bans.
func TestPurgeDeletesTheState(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	root := t.TempDir()
	state, other := filepath.Join(root, "var/lib/private/tidegate"), filepath.Join(root, "var/lib/private/other")
	link := filepath.Join(root, "var/lib/tidegate") // as systemd makes it for a service without a user of its own
	for _, err := range []error{
		os.MkdirAll(state, 0o755), os.MkdirAll(other, 0o755), os.Symlink("private/tidegate", link),
		os.WriteFile(filepath.Join(state, "bans.jsonl"), []byte(`{"prefix":"192.0.2.7/32"}`), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		argument string
		keeps    bool
	}{{"upgrade", true}, {"remove", true}, {"purge", false}, {"purge", false}} {
		script := exec.Command(shell, "deb/postrm", step.argument)
		script.Env = append(os.Environ(), "DPKG_ROOT="+root)
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.argument, err, out)
		}
		_, bans := os.Stat(filepath.Join(state, "bans.jsonl"))
		_, linked := os.Lstat(link)
		if (bans == nil) != step.keeps || (linked == nil) != step.keeps {
			t.Errorf("%s: bans %v, link %v", step.argument, bans, linked)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestServicesRunTheSame checks that every service file starts the same command and waits as long for its end.
func TestServicesRunTheSame(t *testing.T) {
	for file, want := range map[string][]string{
		"systemd/tidegate.service": {"tidegate run -c /etc/tidegate/tidegate.toml", "TimeoutStopSec=90"},
		"openrc/tidegate":          {`command_args="run -c $config"`, "/etc/tidegate/tidegate.toml", "TERM/90/"},
		"launchd/tidegate.plist":   {"<string>run</string>", "/tidegate.toml</string>", "<integer>90</integer>"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s lacks %s", file, w)
			}
		}
	}
}

// TestLaunchdFileIsXML reads the launchd file to its end.
func TestLaunchdFileIsXML(t *testing.T) {
	file, err := os.Open("launchd/tidegate.plist")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	elements := 0
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if _, is := token.(xml.StartElement); is {
			elements++
		}
	}
	if elements < 30 {
		t.Errorf("%d elements", elements)
	}
}

// TestImageIsPinned checks that the image's recipe names an exact release of Go by its digest, not older than the
// source needs.
func TestImageIsPinned(t *testing.T) {
	recipe, err := os.ReadFile("docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`(?m)^ARG BASE=golang:(\d+\.\d+\.\d+)-\w+@sha256:[0-9a-f]{64}$`).
		FindStringSubmatch(string(recipe))
	needed := regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`).FindStringSubmatch(string(module))
	if pinned == nil || needed == nil || version.Compare("go"+pinned[1], "go"+needed[1]) < 0 {
		t.Errorf("the image is built by Go %q, the source needs %q", pinned, needed)
	}
}

// TestChartSchemaIsWhole compares the chart's schema with its values: each key is in both, and the defaults fit.
func TestChartSchemaIsWhole(t *testing.T) {
	type node struct {
		Properties           map[string]node
		AdditionalProperties *bool
	}
	var schema node
	b, err := os.ReadFile("helm/tidegate/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
		t.Error("the schema admits unknown keys")
	}
	if b, err = os.ReadFile("helm/tidegate/values.yaml"); err != nil {
		t.Fatal(err)
	}
	stated, inside := make(map[string]bool), ""
	key := regexp.MustCompile(`(?m)^( {2})?([a-zA-Z]+):`)
	for _, found := range key.FindAllStringSubmatch(string(b), -1) {
		if found[1] == "" {
			inside = found[2]
			stated[inside] = true
			if _, ok := schema.Properties[inside]; !ok {
				t.Errorf("the schema lacks %s", inside)
			}
			continue
		}
		properties := schema.Properties[inside].Properties
		if _, ok := properties[found[2]]; !ok && properties != nil {
			t.Errorf("the schema lacks %s.%s", inside, found[2])
		}
	}
	for name := range schema.Properties {
		if !stated[name] && name != "global" { // Helm's own
			t.Errorf("values.yaml lacks %s", name)
		}
	}
}
