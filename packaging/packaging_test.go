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

// TestChartHasMemoryForTheDefaults checks that the pod's limit is above the default limit of queued bytes.
func TestChartHasMemoryForTheDefaults(t *testing.T) {
	b, err := os.ReadFile("helm/tidegate/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`limits: \{memory: (\d+)Gi\}`).FindStringSubmatch(string(b))
	if found == nil {
		t.Fatal("values.yaml has no limit of memory in GiB")
	}
	pod, _ := strconv.Atoi(found[1])
	queued := 0
	for _, l := range config.Default().EffectiveLimits() {
		if l.Of == config.QueuedBytes && l.Per == config.Overall {
			queued = int(l.Rate)
		}
	}
	if queued == 0 || pod<<30 < queued+queued/2 {
		t.Errorf("a pod has %d GiB; %d bytes may be queued", pod, queued)
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
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil || len(d.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(d.Panels), err)
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 || p.Targets[0].Expr == "" {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
	}
}

// TestAlertsAreExplained checks that the manual explains each alert.
func TestAlertsAreExplained(t *testing.T) {
	rules, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	if len(names) == 0 {
		t.Error("no alerts")
	}
	for _, n := range names {
		if !strings.Contains(string(manual), "`"+n[1]+"`") {
			t.Errorf("docs/operations.md does not tell what to do about %s", n[1])
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

// TestImageIsPinned checks that the image's recipe names an exact release of Go, not older than the source needs.
func TestImageIsPinned(t *testing.T) {
	recipe, err := os.ReadFile("docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`(?m)^ARG BASE=golang:(\d+\.\d+\.\d+)-\w+$`).FindStringSubmatch(string(recipe))
	needed := regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`).FindStringSubmatch(string(module))
	if pinned == nil || needed == nil || version.Compare("go"+pinned[1], "go"+needed[1]) < 0 {
		t.Errorf("the image is built by Go %q, the source needs %q", pinned, needed)
	}
}
