package packaging

import (
	"regexp"
	"strings"
	"testing"
)

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
