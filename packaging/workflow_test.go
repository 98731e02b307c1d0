package packaging

import (
	"regexp"
	"strings"
	"testing"
)

// TestReleaseWorkflow checks what the workflow of a release uses of this source.
func TestReleaseWorkflow(t *testing.T) {
	workflow := read(t, "../.github/workflows/release.yml")
	for what, file := range map[string]string{
		"release-check": "../Makefile", "dist/SHA256SUMS": "release/archive.go", "VERSION": "docker/Dockerfile",
		"COMMIT": "docker/Dockerfile", "  repository: ": "helm/tidegate/values.yaml", "dist/site": "../Makefile",
	} {
		if !strings.Contains(workflow, what) || !strings.Contains(read(t, file), strings.TrimPrefix(what, "dist/")) {
			t.Errorf("%q is not both in the workflow and in %s", what, file)
		}
	}
}

// TestWorkflowBuildsAllPlatforms checks that the workflow runs .ci/run, and builds the platforms of a release.
func TestWorkflowBuildsAllPlatforms(t *testing.T) {
	workflow := read(t, "../.github/workflows/ci.yml")
	if !strings.Contains(workflow, " .ci/run\n") {
		t.Error("the workflow does not run .ci/run")
	}
	released := regexp.MustCompile(`(?m)^PLATFORMS \?= (.*)$`).FindStringSubmatch(read(t, "../Makefile"))
	built := regexp.MustCompile(`(?m)^ *platform: \[(.*)\]$`).FindStringSubmatch(workflow)
	if released == nil || built == nil || strings.ReplaceAll(built[1], " ", "") != released[1] {
		t.Errorf("the workflow builds %q, and a release %q", built, released)
	}
}
