package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/daemon"
	"tidegate/internal/testkit/heavy"
)

// Versions of the programs that the test builds.
const (
	earlierRelease = "0.0.9"
	laterRelease   = "0.2.0"
)

// handoverSource is the file that came with the first release that can hand over sessions in the present format. As
// long as no release has a tag, the commit that added it stands for the release before. It is in handover.go today.
const handoverSource = "proxy/precopy.go"

// laterSources are changes of the source that a later release may make: further fields in all records and in the first
// message of an upgrade.
var laterSources = map[string][2]string{
	"internal/record/record.go": {
		"type Head struct {\n", "type Head struct {\n\tLater [2]int `cbor:\"63,keyasint\"`\n",
	},
	"proxy/relay/saved/session.go": {
		"type Terminated struct {\n", "type Terminated struct {\n\tLater []string `cbor:\"62,keyasint\"`\n",
	},
	"codec/internal/prints/prints.go": {
		"type Saved struct {\n", "type Saved struct {\n\tLater map[string]int `cbor:\"62,keyasint\"`\n",
	},
	"internal/daemon/upgrade.go": {
		"type handover struct {\n", "type handover struct {\n\tLater []string `json:\"later\"`\n",
	},
}

// build builds the program of a source at a path.
func build(t *testing.T, root, version, path string, flags ...string) {
	t.Helper()
	arguments := append([]string{"build", "-trimpath", "-o", path,
		"-ldflags", "-X tidegate/internal/daemon.Release=" + version}, flags...)
	cmd := exec.Command("go", append(arguments, ".")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build release %s: %v: %s", version, err, out)
	}
}

// buildLater builds a later release at a path: the present source with laterSources.
func buildLater(t *testing.T, path string) {
	t.Helper()
	root, err := os.Getwd()
	must(t, err)
	dir := t.TempDir()
	replaced := make(map[string]string)
	for file, change := range laterSources {
		text, err := os.ReadFile(file)
		must(t, err)
		later := strings.Replace(string(text), change[0], change[1], 1)
		if later == string(text) {
			t.Fatalf("%s has no %q", file, change[0])
		}
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		must(t, os.WriteFile(copied, []byte(later), 0o600))
		replaced[filepath.Join(root, file)] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	must(t, err)
	file := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(file, overlay, 0o600))
	build(t, root, laterRelease, path, "-overlay", file)
}

// buildEarlier builds the release before at a path: the newest tag before this commit, or the commit that added
// handoverSource. A source without history has neither. Then it returns false.
func buildEarlier(t *testing.T, path string) bool {
	t.Helper()
	commit, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "HEAD^").Output()
	if err != nil {
		commit, err = exec.Command("git", "log", "--diff-filter=A", "--format=%H", "-1", "--", handoverSource).Output()
	}
	if commit = bytes.TrimSpace(commit); err != nil || len(commit) == 0 {
		t.Logf("no history with an earlier release: %v", err)
		return false
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "source.tar")
	if out, err := exec.Command("git", "archive", "-o", archive, string(commit)).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", commit, err, out)
	}
	source := filepath.Join(dir, "source")
	must(t, os.Mkdir(source, 0o700))
	if out, err := exec.Command("tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	build(t, source, earlierRelease, path, "-buildvcs=false")
	return true
}

// TestUpgradeBetweenReleases upgrades an earlier release to this one, this one to a later one, and back, while players
// of all protocols play. A later release has further fields in its records. No session ends.
func TestUpgradeBetweenReleases(t *testing.T) {
	heavy.Skip(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("it needs the go command: ", err)
	}
	t.Parallel()
	dir := t.TempDir()
	path, earlier, later := filepath.Join(dir, "tidegate"), filepath.Join(dir, "earlier"), filepath.Join(dir, "later")
	buildLater(t, later)
	order := []string{laterRelease, daemon.Version(), laterRelease, daemon.Version()}
	if buildEarlier(t, earlier) {
		order = append(order, earlierRelease, daemon.Version())
	} else {
		t.Log("the test goes on without an earlier release")
	}
	copyOfSelf(t, path)
	const talkers = 8
	others := newGames(t)
	others.players = 1 // of each protocol: the builds need the processor
	p := startProgram(t, path, bridgeConfig(echoServer(t))+others.configuration(), nil)
	talk := p.talking(t, talkers)
	others.begin(t, p)
	players := float64(talkers + len(others.sessions))
	pid := p.cmd.Process.Pid
	for _, version := range order {
		must(t, os.Remove(path))
		switch version {
		case laterRelease:
			must(t, os.Link(later, path))
		case earlierRelease:
			must(t, os.Link(earlier, path))
		default:
			copyOfSelf(t, path)
		}
		must(t, syscall.Kill(pid, syscall.SIGUSR2))
		const handedOver = "handed over; this process ends"
		lines := p.awaitAll(t, handedOver, "took over", "tidegate is running")
		pid = int(lines[handedOver]["successor"].(float64))
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		got, _ := lines[handedOver]["successor_version"].(string)
		if !strings.HasPrefix(got, version) || lines["took over"]["sessions"] != players {
			t.Errorf("upgraded to %v, want %s: %v", got, version, lines["took over"])
		}
		talk.goesOn(t)
		others.goOn(t, p)
	}
	others.end(t)
	talk.end(t)
}
